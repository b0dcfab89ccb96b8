// Maps all of space into the unit cube (Barron et al. 2022, Mip-NeRF 360, eq. 10). The ball of radius 1 is scaled into the middle
// half of the cube, and everything outside it fills the shell around it.
#pragma once
#include "common.cuh"
#include "vectors.cuh"

__device__ __forceinline__ float3 contract(float3 x)        // x: in radii, relative to the centre
{
    const float r2 = dot(x, x);
    const float s = r2 > 1.0f ? (2.0f - rsqrtf(r2)) * rsqrtf(r2) : 1.0f;
    return add(scale(0.25f * s, x), make_vec(0.5f, 0.5f, 0.5f));
}
