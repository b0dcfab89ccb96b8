// Sums with the same bits in whatever order their terms come: 64-bit fixed point, where floats would round differently each
// time. A row holds the sums of one splat in place of floats; its last number counts terms that no such sum can hold.
#pragma once
#include "common.cuh"

#define FIXED_POISON (SPLAT_SUMS - 1)
#define FIXED_ONE 17179869184.0f            // 2^34: sums up to 2^29 units, in steps of 6e-11
#define SCORE_ONE 16777216.0f               // 2^24: of sums of scores, in pixels

// What the k-th sum of blend_backward is measured in, so that neither small nor large splats leave that range: a pixel's
// share of a mean, times standard deviations of the splat for dx and dy.
__device__ __forceinline__ float fixed_unit(int k, float4 conic, int num_pixels)
{
    const float det = fmaxf(conic.x * conic.z - conic.y * conic.y, 1e-30f);
    const float x = sqrtf(conic.z / det), y = sqrtf(conic.x / det);
    const float length = k == 1 ? x : k == 2 ? y : k == 3 ? x * x : k == 4 ? x * y : k == 5 ? y * y : 1.0f;
    return length / (3.0f * num_pixels);
}

__device__ __forceinline__ bool add_fixed(unsigned long long* sum, float value)     // false: no number it could hold
{
    if (!(fabsf(value) < 4e18f)) return false;
    atomicAdd(sum, (unsigned long long)(long long)rintf(value));
    return true;
}
