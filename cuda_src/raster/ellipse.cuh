// Which tiles a projected splat touches, exactly: the ellipse alpha >= 1/255 against the rectangle of a tile's pixel centres
// (the idea of Speedy-Splat, Hanson et al. 2025, sec. 4.1: walk the rows of tiles and take the ellipse's span in each).
// Every operation is rounded on its own (_rn intrinsics), so that counting and emitting, compiled apart, agree to the bit.
#pragma once
#include "common.cuh"

struct Ellipse {                    // a dx^2 + 2 b dx dy + c dy^2 <= reach around (x, y)
    float x, y, a, b, c;
    float reach;                    // 2 ln(255 opacity)
    float det;                      // a c - b^2
    float x_max, y_max;             // half the bounding box, px
    float tilt_y;                   // dy at which dx is largest
};

__device__ __forceinline__ Ellipse make_ellipse(float2 mean2d, float4 conic_opacity)
{
    Ellipse e;
    e.x = mean2d.x; e.y = mean2d.y;
    e.a = conic_opacity.x; e.b = conic_opacity.y; e.c = conic_opacity.z;
    e.reach = __fmul_rn(2.0f, logf(__fmul_rn(255.0f, conic_opacity.w)));
    e.det = __fmaf_rn(e.a, e.c, -__fmul_rn(e.b, e.b));
    e.x_max = __fsqrt_rn(__fdiv_rn(__fmul_rn(e.reach, e.c), e.det));
    e.y_max = __fsqrt_rn(__fdiv_rn(__fmul_rn(e.reach, e.a), e.det));
    e.tilt_y = __fmul_rn(-__fdiv_rn(e.b, e.c), e.x_max);
    return e;
}

struct Span { int begin, end; };    // half open; empty where begin >= end

// Tiles whose pixel centres' interval [16 k + 0.5, 16 k + 15.5], cut to the image, meets [lo, hi].
__device__ __forceinline__ Span tiles_meeting(float lo, float hi, int size, int num_tiles)
{
    Span s = {0, 0};
    lo = __fadd_rn(lo, -0.5f);
    hi = __fadd_rn(hi, -0.5f);
    if (!(hi >= 0.0f) || !(lo <= (float)(size - 1))) return s;
    s.begin = (int)fmaxf(ceilf(__fmul_rn(__fadd_rn(lo, -(TILE - 1.0f)), 1.0f / TILE)), 0.0f);
    s.end = (int)fminf(floorf(__fmul_rn(hi, 1.0f / TILE)) + 1.0f, (float)num_tiles);
    return s;
}

// Rows of tiles that the ellipse's bounding box meets.
__device__ __forceinline__ Span tile_rows(const Ellipse& e, const Camera& camera)
{
    return tiles_meeting(__fsub_rn(e.y, e.y_max), __fadd_rn(e.y, e.y_max), camera.height, camera.tiles_y);
}

// Tiles of row `row` whose pixel centres' rectangle the ellipse meets: an interval, since a slice of a convex set is convex.
__device__ __forceinline__ Span tile_span(const Ellipse& e, const Camera& camera, int row)
{
    const int last_y = min((row + 1) * TILE, camera.height) - 1;
    const float top = fmaxf(__fsub_rn((float)(row * TILE) + 0.5f, e.y), -e.y_max);
    const float bottom = fminf(__fsub_rn((float)last_y + 0.5f, e.y), e.y_max);
    if (!(top <= bottom)) { Span none = {0, 0}; return none; }
    // the right edge dx(dy) is concave and largest at tilt_y; the left edge is its mirror image
    const float dy_right = fminf(fmaxf(e.tilt_y, top), bottom), dy_left = fminf(fmaxf(-e.tilt_y, top), bottom);
    const float reach_a = __fmul_rn(e.reach, e.a);
    const float root_right = __fsqrt_rn(fmaxf(__fmaf_rn(-e.det, __fmul_rn(dy_right, dy_right), reach_a), 0.0f));
    const float root_left = __fsqrt_rn(fmaxf(__fmaf_rn(-e.det, __fmul_rn(dy_left, dy_left), reach_a), 0.0f));
    const float hi = __fadd_rn(e.x, __fdiv_rn(__fsub_rn(root_right, __fmul_rn(e.b, dy_right)), e.a));
    const float lo = __fsub_rn(e.x, __fdiv_rn(__fadd_rn(root_left, __fmul_rn(e.b, dy_left)), e.a));
    return tiles_meeting(lo, hi, camera.width, camera.tiles_x);
}

__device__ __forceinline__ int tile_count(const Ellipse& e, const Camera& camera)
{
    const Span rows = tile_rows(e, camera);
    int n = 0;
    for (int row = rows.begin; row < rows.end; ++row) {
        const Span s = tile_span(e, camera, row);
        n += max(s.end - s.begin, 0);
    }
    return n;
}

#define WORK_THREADS 256            // of a block that calls for_each_tile, at most

struct TileWork {                   // in shared memory: what each thread's splat brings to its warp
    Ellipse ellipse[WORK_THREADS];
    Span rows[WORK_THREADS], columns[WORK_THREADS];     // tiles of the bounding box
    float depth[WORK_THREADS];
    unsigned count[WORK_THREADS], end[WORK_THREADS];    // tiles of the box; their running sum over the warp
};

// Calls f(splat, depth, tile) for every tile that a visible splat touches. All threads of a block call it, thread i with the
// splat numbered as itself. The warp's splats are taken together: each lane takes every 32nd tile of all their bounding boxes
// and tests it, so that a warp is busy for as long as it has tiles, however unequal its splats.
template <class F>
__device__ __forceinline__ void for_each_tile(
    TileWork& work, bool visible, const Ellipse& e, const Camera& camera, float depth, F f)
{
    const int me = threadIdx.x, lane = me & 31, warp = me - lane;
    unsigned count = 0;
    if (visible) {
        work.ellipse[me] = e;
        work.depth[me] = depth;
        const Span rows = tile_rows(e, camera);
        const Span columns = tiles_meeting(__fsub_rn(e.x, e.x_max), __fadd_rn(e.x, e.x_max), camera.width, camera.tiles_x);
        work.rows[me] = rows;
        work.columns[me] = columns;
        count = max(rows.end - rows.begin, 0) * max(columns.end - columns.begin, 0);
    }
    work.count[me] = count;
    __syncwarp();
    unsigned end = count;
    for (int k = 0; k < lane; ++k) end += work.count[warp + k];
    work.end[me] = end;
    __syncwarp();
    const unsigned total = work.end[warp + 31];
    for (unsigned at = lane; at < total; at += 32) {
        int owner = warp;                                   // the first whose running sum is past `at`
        for (int half = 16; half > 0; half /= 2) owner += work.end[owner + half - 1] <= at ? half : 0;
        const Span columns = work.columns[owner];
        const unsigned nth = at - (work.end[owner] - work.count[owner]), width = columns.end - columns.begin;
        const int row = work.rows[owner].begin + nth / width, column = columns.begin + nth % width;
        const Span span = tile_span(work.ellipse[owner], camera, row);
        if (column >= span.begin && column < span.end)
            f(blockIdx.x * blockDim.x + owner, work.depth[owner], row * camera.tiles_x + column);
    }
}
