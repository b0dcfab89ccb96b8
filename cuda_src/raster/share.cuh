// Owner of splat i and its index in the owner's share; the inverse is splat_of (common.cuh).
#pragma once
#include "common.cuh"

__device__ __forceinline__ int rank_of(int num_ranks, int i) { return i / RANK_BLOCK % num_ranks; }
__device__ __forceinline__ int place_in_share(int num_ranks, int i) { return i / (RANK_BLOCK * num_ranks) * RANK_BLOCK + i % RANK_BLOCK; }
