// Common to the forward and the backward blend: assignment of a tile's pixels to warps, staging of its splats in shared memory,
// and choice of the splats that a warp has to process.
//
// A lane owns PIXELS pixels of a column, 4 rows apart, a warp 8 x 4 PIXELS of a 16x16 tile: what is done once a splat (loads,
// loop, sums over the warp) is shared by as many pixels. A batch of up to 256 splats is staged for the whole block; then each
// lane tests one splat of 32 against the warp's rectangle, and the warp walks over those that touch it. On the CPU the same
// code runs with vectors of 32 pixels in place of a warp.
#pragma once
#include "common.cuh"
#include "lanes.cuh"

#ifndef PIXELS
#error "a kernel that includes blend.cuh defines PIXELS first: 1, 2 or 4"
#endif
#define WARPS (TILE_PIXELS / 32 / PIXELS)
#define WARP_WIDTH 8
#define WARP_HEIGHT (4 * PIXELS)
#define BATCH SEGMENT
#define FOR_PIXELS(k) _Pragma("unroll") for (int k = 0; k < PIXELS; ++k)

struct Staged {                             // a batch in shared memory, scaled so that alpha = opacity * 2^power
    float4 shape[BATCH];                    // x, y (px), a, b: power = a dx^2 + b dx dy + c dy^2
    float4 rest[BATCH];                     // c, opacity, power at which alpha = 1/255, bits of the splat's index
    float4 color[BATCH];                    // rgb, unused
};

__device__ __forceinline__ void stage(
    Staged& s, int n,
    const unsigned* __restrict__ splat_from_pair,   // [n] of this batch
    const float2* __restrict__ means2d, const float4* __restrict__ conic_opacity, const float4* __restrict__ colors)
{
    BLOCK_FOR(i, n) {
        const unsigned id = splat_from_pair[i];
        const float2 m = means2d[id];
        const float4 q = conic_opacity[id];
        float4 shape, rest;
        shape.x = m.x; shape.y = m.y; shape.z = -0.5f * LOG2E * q.x; shape.w = -LOG2E * q.y;
        rest.x = -0.5f * LOG2E * q.z; rest.y = q.w; rest.z = -log2f(255.0f * q.w); rest.w = __int_as_float((int)id);
        s.shape[i] = shape; s.rest[i] = rest; s.color[i] = colors[id];
    }
}

struct Pixels {                             // of one warp; a lane's k-th lies 4 k rows below its first
    vint x, y;                              // of the first
    vfloat px, py;                          // its centre
    float left, top;                        // centre of the warp's first pixel
    vbool inside[PIXELS];
};

__device__ __forceinline__ Pixels pixels_of_warp(const Camera& camera, unsigned tile, int warp)
{
    const int left = (int)(tile % camera.tiles_x) * TILE + (warp & 1) * WARP_WIDTH;
    const int top = (int)(tile / camera.tiles_x) * TILE + (warp >> 1) * WARP_HEIGHT;
    Pixels p;
    p.x = left + (lane_id() & 7);
    p.y = top + (lane_id() >> 3);
    p.px = to_float(p.x) + 0.5f; p.py = to_float(p.y) + 0.5f;
    p.left = left + 0.5f; p.top = top + 0.5f;
    FOR_PIXELS(k) p.inside[k] = (p.x < camera.width) & (p.y + 4 * k < camera.height);
    return p;
}

// Does a splat's power exceed its threshold anywhere in the warp's rectangle of pixel centres? Exact: outside the ellipse's
// centre the largest power lies on an edge that faces it.
__device__ __forceinline__ vbool touches(vfloat4 shape, vfloat4 rest, float left, float top)
{
    const float right = left + (WARP_WIDTH - 1), bottom = top + (WARP_HEIGHT - 1);
    const vfloat dx = vmin(vmax(shape.x, left), right) - shape.x;           // nearest column of the rectangle
    const vfloat dy = vmin(vmax(shape.y, top), bottom) - shape.y;
    const vfloat a = shape.z, b = shape.w, c = rest.x;
    const vfloat y_on_dx = vmin(vmax(-0.5f * b * dx * vrcp(c), top - shape.y), bottom - shape.y);
    const vfloat x_on_dy = vmin(vmax(-0.5f * b * dy * vrcp(a), left - shape.x), right - shape.x);
    const vfloat power_dx = dx * (a * dx + b * y_on_dx) + c * y_on_dx * y_on_dx;
    const vfloat power_dy = x_on_dy * (a * x_on_dy + b * dy) + c * dy * dy;
    const float slack = 1e-3f;              // rounding of large offsets; the pixel's own test decides
    return vmax(power_dx, power_dy) >= rest.z - slack;
}

// Bit j: the warp must process splat `first + j` of the batch.
__device__ __forceinline__ unsigned hits_of_warp(const Staged& s, int first, int n, const Pixels& pixels)
{
    const vint i = first + lane_id();
    const vbool in_batch = i < n;
    return ballot(in_batch & touches(load4_row(s.shape + first, in_batch), load4_row(s.rest + first, in_batch), pixels.left, pixels.top));
}

// Where the states of a warp's k-th pixels lie in a plane of 256: by 8x4 pixels, whatever PIXELS is.
__device__ __forceinline__ int state_offset(int warp, int k) { return 32 * ((warp & 1) + 2 * ((warp >> 1) * PIXELS + k)); }

// Where the state of a tile's segment k >= 1 lies. Unique, since a tile of n pairs has fewer than n / SEGMENT + 1 of them.
__device__ __forceinline__ size_t state_slot(unsigned tile, unsigned tile_begin, int k)
{
    return (size_t)(tile_begin / SEGMENT + tile + k) * 4 * TILE_PIXELS;
}
