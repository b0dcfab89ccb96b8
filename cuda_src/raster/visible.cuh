// Format in which a rank sends projected splats to another: an index, then only the splats that are visible in the view.
// A slot holds the splats of one view, in words of 4 bytes:
//     number  [1]                        of visible splats, padded to 16 bytes
//     groups  [columns / 32]             VisibleGroup
//     splats  [rows, PROJECTED]          three arrays: conic and opacity; rgb and depth; mean2d
// columns: number of splats of a share, rounded up to blocks, the same for all ranks. Splats of a group have consecutive rows. The order
// of groups varies between runs, but no result depends on it. If a view has more visible splats than the slot has rows, the rest is not
// sent, and the batch is repeated (`agree` in exchange.cu).
#pragma once
#include "numbers.cuh"
#include "raster/share.cuh"

#define PROJECTED 10                // floats per projected splat
#define GROUPS_AT 4                 // word of a slot at which its groups begin

// 32 splats: a bit for each visible one, and the row of the first of these.
struct VisibleGroup { unsigned mask, begin; };

// Word of a slot at which its splats begin. train/ranked/exchange.py knows the same size.
__device__ __forceinline__ size_t splats_at(int columns) { return GROUPS_AT + columns / 16; }

__device__ __forceinline__ int num_visible(const float* __restrict__ slot) { return *(const int*)slot; }

// The slots of a view on the rank that renders it, one per rank. This rank's own slot is where `project_share` has written it, the
// others are where they were received. train/ranked/exchange.py mirrors this layout.
struct ViewSlots {
    unsigned long long own, received;   // addresses of one slot, and of slots [num_ranks, stride]
    int stride;                         // floats per slot
    int rank, num_ranks;
};
__device__ __forceinline__ const float* slot_of(const ViewSlots& s, int rank)
{
    return rank == s.rank ? (const float*)s.own : (const float*)s.received + (size_t)rank * s.stride;
}

// Group that contains splat j of a share.
__device__ __forceinline__ VisibleGroup group_of(const float* __restrict__ slot, int j)
{
    return ((const VisibleGroup*)(slot + GROUPS_AT))[j / 32];
}

// Whether the lane's splat of a group has a row, and which row.
__device__ __forceinline__ vbool has_row(const VisibleGroup& group, vint lane)
{
    return test_each(lane, [=](int k) { return group.mask >> k & 1u; });
}
__device__ __forceinline__ vint row_of(const VisibleGroup& group, vint lane)
{
    return map_each(lane, [=](int k) { return (int)(group.begin + __popc(group.mask & ((1u << k) - 1u))); });
}
