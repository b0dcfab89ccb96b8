// Shared by the forward and backward blend: pixels of a warp, splats of a tile in shared memory, splats that touch a warp's pixels.
//
// A lane owns PIXELS pixels of a column, 4 rows apart; a warp owns 8 x (4 PIXELS) pixels of the 16x16 tile. The cost per splat
// (loads, loop, sums over the warp) is shared by these pixels.
//
//     PIXELS = 1             PIXELS = 2             lanes of a warp at PIXELS = 2
//     +-------+-------+      +-------+-------+          0  1  2 ...  7
//     | warp 0| warp 1|      |       |       |          8  9 10 ... 15       first pixels
//     +-------+-------+      | warp 0| warp 1|         16 17 18 ... 23
//     | warp 2| warp 3|      |       |       |         24 25 26 ... 31
//     +-------+-------+      +-------+-------+          0  1  2 ...  7
//     | warp 4| warp 5|      |       |       |          8  9 10 ... 15       second pixels
//     +-------+-------+      | warp 2| warp 3|         16 17 18 ... 23
//     | warp 6| warp 7|      |       |       |         24 25 26 ... 31
//     +-------+-------+      +-------+-------+
//
// The block stages a batch of up to 256 splats in shared memory. Then each lane tests one of 32 splats against the warp's rectangle,
// and the warp visits the splats that touch it. On the CPU the same code runs with vectors of 32 pixels instead of a warp.
#pragma once
#include "common.cuh"
#include "lanes.cuh"
#ifdef LENS
#include "lens/lens.cuh"
#endif

#ifndef PIXELS
#error "a kernel that includes blend.cuh defines PIXELS first: 1, 2 or 4"
#endif
#define WARPS (TILE_PIXELS / 32 / PIXELS)
#define WARP_WIDTH 8
#define WARP_HEIGHT (4 * PIXELS)
#define BATCH SEGMENT
#define FOR_PIXELS(k) _Pragma("unroll") for (int k = 0; k < PIXELS; ++k)

struct Staged {                             // a batch in shared memory, scaled so that alpha = opacity * 2^power
    float4 shape[BATCH];                    // x, y (px), a, b of power = a dx^2 + b dx dy + c dy^2
    float4 rest[BATCH];                     // c, opacity, power at which alpha = 1/255, bits of the splat's index
    float4 color[BATCH];                    // rgb, unused
};

__device__ __forceinline__ void stage(
    Staged& s, int n, const Camera& camera, unsigned tile,
    const unsigned* __restrict__ splat_from_pair,   // [n] of this batch
    const float2* __restrict__ means2d,             // [capacity] px
    const float4* __restrict__ conic_opacity,       // [capacity] conic in px^-2, opacity
    const float4* __restrict__ colors)              // [capacity] rgb
{
    BLOCK_FOR(i, n) {
        const unsigned id = splat_from_pair[i];
        float2 m = means2d[id];
#ifdef LENS
        m.x = wrapped_near(camera, m.x, (tile % camera.tiles_x + 0.5f) * TILE);
#endif
        const float4 q = conic_opacity[id];
        float4 shape, rest;
        shape.x = m.x; shape.y = m.y; shape.z = -0.5f * LOG2E * q.x; shape.w = -LOG2E * q.y;
        rest.x = -0.5f * LOG2E * q.z; rest.y = q.w; rest.z = -log2f(255.0f * q.w); rest.w = __int_as_float((int)id);
        s.shape[i] = shape; s.rest[i] = rest; s.color[i] = colors[id];
    }
}

struct Pixels {                             // pixels of one warp; a lane's k-th pixel lies 4 k rows below its first
    vint x, y;                              // the lane's first pixel
    vfloat px, py;                          // centre of it
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

// Does the splat's power reach its threshold at any point of the warp's rectangle of pixel centres? Exact: seen from a rectangle that
// does not contain the mean, the largest power lies on an edge that faces the mean.
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
    const float slack = 1e-3f;              // for the rounding of large offsets; each pixel tests again
    return vmax(power_dx, power_dy) >= rest.z - slack;
}

// Bit j of the result: the warp has to visit splat `first + j` of the batch.
__device__ __forceinline__ unsigned hits_of_warp(const Staged& s, int first, int n, const Pixels& pixels)
{
    const vint i = first + lane_id();
    const vbool in_batch = i < n;
    return ballot(in_batch & touches(load4_row(s.shape + first, in_batch), load4_row(s.rest + first, in_batch), pixels.left, pixels.top));
}

// Index of the state of a warp's k-th pixels in a plane of 256. The order is by blocks of 8x4 pixels, the same for every PIXELS.
__device__ __forceinline__ int state_offset(int warp, int k) { return 32 * ((warp & 1) + 2 * ((warp >> 1) * PIXELS + k)); }

// Index of the state at the start of segment k >= 1 of a tile. Slots do not overlap: n pairs have fewer than n / SEGMENT + 1 segments.
__device__ __forceinline__ size_t state_slot(unsigned tile, unsigned tile_begin, int k)
{
    return (size_t)(tile_begin / SEGMENT + tile + k) * 4 * TILE_PIXELS;
}
