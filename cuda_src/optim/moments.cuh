// Storage of Adam's moments: both of a parameter in one word, as bfloat16; the second in the high half. Stores round at random, upwards with
// the fraction that is cut off as the probability. A second moment moves by a thousandth of its difference from the squared gradient, which
// rounding to nearest would lose (Zamirai et al. 2020, "Revisiting BFloat16 Training", sec. 3).
#pragma once
#include "common.cuh"
#include "numbers.cuh"

#define HIGH_HALF ((int)0xffff0000u)

__device__ __forceinline__ vfloat first_moment(vfloat word) { return float_from_bits(float_bits(word) << 16); }
__device__ __forceinline__ vfloat second_moment(vfloat word) { return float_from_bits(float_bits(word) & HIGH_HALF); }

// Random bits per splat and step, which store_moments hashes with the row. They depend on the number of the splat among the trained ones.
__device__ __forceinline__ vint rounding_seed(const IterState& state, vint splat)
{
    const unsigned seed = pcg((unsigned)state.step) - state.num_frozen;
    return map_each(splat, [=](int i) { return (int)pcg(seed + i); });
}

__device__ __forceinline__ void store_moments(float* words, vfloat first, vfloat second, vint seed, int row, vbool m)
{
    const vint random = map_each(seed, [=](int s) { return (int)pcg((unsigned)s + row); });
    const vint low = (float_bits(first) + (random & 0xffff)) >> 16, high = float_bits(second) + (random >> 16 & 0xffff);
    store_own(words, float_from_bits((high & HIGH_HALF) | (low & 0xffff)), m);
}
