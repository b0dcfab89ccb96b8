// Storage of Adam's moments: two planes of float32, or packed as bfloat16 in one plane of words, the second moment in the high half.
// Packing rounds at random, upwards with the fraction that is cut off as the probability. A second moment moves by a thousandth of its
// difference from the squared gradient, which rounding to nearest would lose (Zamirai et al. 2020, "Revisiting BFloat16 Training", sec. 3).
#pragma once
#include "common.cuh"

#define HIGH_HALF ((int)0xffff0000u)

// Addresses of the lane's own elements of the first row.
template <bool PACKED>
struct Moments {
    float* __restrict__ first;      // [rows, capacity]; packed: words with both moments
    float* __restrict__ second;     // [rows, capacity]; packed: unused
};

// Random bits per splat and step. store_moments hashes them with the row.
template <bool PACKED>
__device__ __forceinline__ vint rounding_seed(const IterState& state, vint splat)
{
    const unsigned seed = pcg((unsigned)state.step);
    return PACKED ? map_each(splat, [=](int i) { return (int)pcg(seed + i); }) : splat;
}

// Moments of the row at offset `at`, for active lanes.
template <bool PACKED>
__device__ __forceinline__ void load_moments(const Moments<PACKED>& moments, size_t at, vfloat& first, vfloat& second, vbool m)
{
    if (PACKED) {
        const vint word = float_bits(load_own(moments.first + at, m));
        first = float_from_bits(word << 16);
        second = float_from_bits(word & HIGH_HALF);
    } else {
        first = load_own(moments.first + at, m);
        second = load_own(moments.second + at, m);
    }
}

template <bool PACKED>
__device__ __forceinline__ void store_moments(
    const Moments<PACKED>& moments, size_t at, vfloat first, vfloat second, vint seed, int row, vbool m)
{
    if (PACKED) {
        const vint random = map_each(seed, [=](int s) { return (int)pcg((unsigned)s + row); });
        const vint low = (float_bits(first) + (random & 0xffff)) >> 16, high = float_bits(second) + ((random >> 16) & 0xffff);
        store_own(moments.first + at, float_from_bits((high & HIGH_HALF) | (low & 0xffff)), m);
    } else {
        store_own(moments.first + at, first, m);
        store_own(moments.second + at, second, m);
    }
}
