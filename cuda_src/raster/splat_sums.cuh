// The sums of blend_backward over the pixels of each splat: one row of d_splats [capacity, SPLAT_SUMS].
#pragma once
#include "common.cuh"
#include "numbers.cuh"
#include "vectors.cuh"

struct SplatSums {
    vfloat g, gx, gy, gxx, gxy, gyy;    // sums of g = dL/dpower times 1, dx, dy, dx^2, dx dy, dy^2
    vfloat red, green, blue;            // dL/d colour
    vfloat abs_x, abs_y;                // sums of |dL/d mean2d|; only with ABSGRAD
    vfloat unused;
};

// Loads the lane's row, if m holds.
__device__ __forceinline__ SplatSums load_sums(const float* d_splats /* [rows, SPLAT_SUMS] */, vint row, vbool m)
{
    const float4* const quarters = (const float4*)d_splats;
    const vint at = row * (SPLAT_SUMS / 4);
    const vfloat4 a = load4(quarters, at, m), b = load4(quarters, at + 1, m), c = load4(quarters, at + 2, m);
    const SplatSums s = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, c.x, c.y, c.z, c.w};
    return s;
}

// Input of color_backward per splat and view. project_backward stores it in the row of the sums after reading them.
struct SplatRay {
    vfloat3 direction;                  // unit vector from the camera centre to the splat
    vfloat3 d_color;                    // dL/d colour in that direction, divided by the number of views
};

__device__ __forceinline__ SplatRay load_ray(const float* d_splats /* [rows, SPLAT_SUMS] */, vint row, vbool m)
{
    const float4* const quarters = (const float4*)d_splats;
    const vfloat4 a = load4(quarters, row * (SPLAT_SUMS / 4), m), b = load4(quarters, row * (SPLAT_SUMS / 4) + 1, m);
    return {make_vec(a.x, a.y, a.z), make_vec(a.w, b.x, b.y)};
}

__device__ __forceinline__ void store_ray(float* d_splats /* [rows, SPLAT_SUMS] */, vint row, const SplatRay& ray, vbool m)
{
    float4* const quarters = (float4*)d_splats;
    const vfloat4 a = {ray.direction.x, ray.direction.y, ray.direction.z, ray.d_color.x}, b = {ray.d_color.y, ray.d_color.z, 0.0f, 0.0f};
    store4(quarters, row * (SPLAT_SUMS / 4), a, m);
    store4(quarters, row * (SPLAT_SUMS / 4) + 1, b, m);
}

// Zeroes the rows of the splats in m, before blend_backward adds to them. row: that of the lane's own splat.
__device__ __forceinline__ void clear_sums(float* __restrict__ d_splats /* [capacity, SPLAT_SUMS] */, int row, vbool m)
{
    const vfloat4 zero = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int k = 0; k < SPLAT_SUMS / 4; ++k)
        store4_own((float4*)(d_splats + (size_t)row * SPLAT_SUMS) + k, zero, m, SPLAT_SUMS / 4);
}
