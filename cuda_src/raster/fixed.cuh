// Sums whose bits do not depend on the order of the terms: 64-bit fixed point instead of floats. A splat's row holds SPLAT_SUMS
// 64-bit integers. The last one counts terms that do not fit; if it is not 0, the sums are unusable.
#pragma once
#include "common.cuh"

#define FIXED_POISON (SPLAT_SUMS - 1)
#define FIXED_ONE 17179869184.0f            // 2^34: the range is 2^29 units, the step 6e-11 units
#define SCORE_ONE 16777216.0f               // 2^24, for scores in px

// Unit of the k-th sum of blend_backward, chosen so that sums of small and large splats stay in range: a pixel's share of a mean,
// times the splat's standard deviation for each factor dx or dy.
__device__ __forceinline__ float fixed_unit(int k, float4 conic, int num_pixels)
{
    const float det = fmaxf(conic.x * conic.z - conic.y * conic.y, 1e-30f);
    const float x = sqrtf(conic.z / det), y = sqrtf(conic.x / det);
    const float length = k == 1 ? x : k == 2 ? y : k == 3 ? x * x : k == 4 ? x * y : k == 5 ? y * y : 1.0f;
    return length / (3.0f * num_pixels);
}

__device__ __forceinline__ bool add_fixed(unsigned long long* sum /* [1] */, float value)     // false: too large or not a number
{
    if (!(fabsf(value) < 4e18f)) return false;
    atomicAdd(sum, (unsigned long long)(long long)rintf(value));
    return true;
}
