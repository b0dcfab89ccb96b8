// Exact test of which tiles a projected splat touches: the ellipse alpha >= 1/255 against a tile's rectangle of pixel centres. In
// each row of tiles the ellipse covers an interval (idea of Speedy-Splat, Hanson et al. 2025, sec. 4.1).
// Every operation is rounded separately (_rn intrinsics), so that the counting and the emitting kernel agree to the bit.
#pragma once
#include "common.cuh"
#include "vectors.cuh"
#ifdef LENS
#include "lens/lens.cuh"
#endif

struct Ellipse {                    // the set a dx^2 + 2 b dx dy + c dy^2 <= reach around (x, y)
    vfloat x, y, a, b, c;
    vfloat reach;                   // 2 ln(255 opacity)
    vfloat det;                     // a c - b^2
    vfloat x_max, y_max;            // half the size of the bounding box, px
    vfloat tilt_y;                  // dy of the rightmost point
};

__device__ __forceinline__ Ellipse make_ellipse(vfloat x /* px */, vfloat y, vfloat4 conic_opacity)
{
    Ellipse e;
    e.x = x; e.y = y;
    e.a = conic_opacity.x; e.b = conic_opacity.y; e.c = conic_opacity.z;
    e.reach = __fmul_rn(2.0f, logf(__fmul_rn(255.0f, conic_opacity.w)));
    e.det = __fmaf_rn(e.a, e.c, -__fmul_rn(e.b, e.b));
    e.x_max = __fsqrt_rn(__fdiv_rn(__fmul_rn(e.reach, e.c), e.det));
    e.y_max = __fsqrt_rn(__fdiv_rn(__fmul_rn(e.reach, e.a), e.det));
    e.tilt_y = __fmul_rn(-__fdiv_rn(e.b, e.c), e.x_max);
    return e;
}

struct Span { vint begin, end; };   // half open; empty if begin >= end

// The tiles k whose interval of pixel centres, [16 k + 0.5, 16 k + 15.5] cut to the image, meets [lo, hi].
__device__ __forceinline__ Span tiles_meeting(vfloat lo, vfloat hi, int size, int num_tiles)
{
    Span s = {0, 0};
    lo = __fadd_rn(lo, -0.5f);
    hi = __fadd_rn(hi, -0.5f);
    const vbool meets = (hi >= 0.0f) & (lo <= (float)(size - 1));
    if (!some(meets)) return s;
    s.begin = select(meets, to_int(fmaxf(ceilf(__fmul_rn(__fadd_rn(lo, -(TILE - 1.0f)), 1.0f / TILE)), 0.0f)), s.begin);
    s.end = select(meets, to_int(fminf(floorf(__fmul_rn(hi, 1.0f / TILE)) + 1.0f, (float)num_tiles)), s.end);
    return s;
}

// Columns of tiles that meet [lo, hi]. In a picture that wraps around, the columns of its copies to both sides count on: -1 is the last
// column of the copy to the left.
__device__ __forceinline__ Span columns_meeting(vfloat lo, vfloat hi, const Camera& camera)
{
#ifdef LENS
    if (wraps_around(camera)) {
        const float width = camera.width;
        const vfloat first = fmaxf(ceilf(__fadd_rn(lo, -0.5f)), vfloat(-2.0f * width));    // columns of pixels
        const vfloat last = fminf(floorf(__fadd_rn(hi, -0.5f)), vfloat(3.0f * width));
        const vfloat first_copy = floorf(__fdiv_rn(first, width)), last_copy = floorf(__fdiv_rn(last, width));
        Span s;
        s.begin = to_int(first_copy) * camera.tiles_x + to_int(floorf((first - first_copy * width) * (1.0f / TILE)));
        s.end = to_int(last_copy) * camera.tiles_x + to_int(floorf((last - last_copy * width) * (1.0f / TILE))) + 1;
        s.end = select(first <= last, s.end, s.begin);
        return s;
    }
#endif
    return tiles_meeting(lo, hi, camera.width, camera.tiles_x);
}

// Index of a tile from its row and column.
__device__ __forceinline__ vint tile_at(const Camera& camera, vint row, vint column)
{
#ifdef LENS
    column -= camera.tiles_x * to_int(floorf(__fdiv_rn(to_float(column), (float)camera.tiles_x)));     // in any copy
#endif
    return row * camera.tiles_x + column;
}

// Rows of tiles that the bounding box touches.
__device__ __forceinline__ Span tile_rows(const Ellipse& e, const Camera& camera)
{
    return tiles_meeting(__fsub_rn(e.y, e.y_max), __fadd_rn(e.y, e.y_max), camera.height, camera.tiles_y);
}

// Tiles of row `row` whose rectangle of pixel centres the ellipse meets. They are an interval: slices of a convex set are convex.
__device__ __forceinline__ Span tile_span(const Ellipse& e, const Camera& camera, vint row)
{
    const vint last_y = vmin((row + 1) * TILE, camera.height) - 1;
    const vfloat top = fmaxf(__fsub_rn(to_float(row * TILE) + 0.5f, e.y), -e.y_max);
    const vfloat bottom = fminf(__fsub_rn(to_float(last_y) + 0.5f, e.y), e.y_max);
    const vbool meets = top <= bottom;
    Span span = {0, 0};
    if (!some(meets)) return span;
    // The edges at dy are dx = (-b dy +- sqrt(reach a - det dy^2)) / a. The right one is concave, and largest at tilt_y if that is within
    // the row, else at the nearer border of the row. The left one is its mirror image.
    const vfloat dy_right = fminf(fmaxf(e.tilt_y, top), bottom), dy_left = fminf(fmaxf(-e.tilt_y, top), bottom);
    const vfloat reach_a = __fmul_rn(e.reach, e.a);
    const vfloat root_right = __fsqrt_rn(fmaxf(__fmaf_rn(-e.det, __fmul_rn(dy_right, dy_right), reach_a), 0.0f));
    const vfloat root_left = __fsqrt_rn(fmaxf(__fmaf_rn(-e.det, __fmul_rn(dy_left, dy_left), reach_a), 0.0f));
    const vfloat hi = __fadd_rn(e.x, __fdiv_rn(__fsub_rn(root_right, __fmul_rn(e.b, dy_right)), e.a));
    const vfloat lo = __fsub_rn(e.x, __fdiv_rn(__fadd_rn(root_left, __fmul_rn(e.b, dy_left)), e.a));
    span = columns_meeting(lo, hi, camera);
#ifdef LENS
    span.end = vmin(span.end, span.begin + camera.tiles_x);     // no tile twice
#endif
    span.end = select(meets, span.end, span.begin);
    return span;
}

// The lanes in m whose ellipse meets any tile. Stops at the first row that has one.
__device__ __forceinline__ vbool touches_tiles(const Ellipse& e, const Camera& camera, vbool m)
{
    const Span rows = tile_rows(e, camera);
    vbool found = false;
    for (vint row = rows.begin; some(m & !found & (row < rows.end)); row += 1) {
        const Span span = tile_span(e, camera, row);
        found = found | ((row < rows.end) & (span.begin < span.end));
    }
    return m & found;
}

struct TileBox { Span rows, columns; };     // tiles that the bounding box touches

__device__ __forceinline__ TileBox tile_box(const Ellipse& e, const Camera& camera)
{
    TileBox box;
    box.rows = tile_rows(e, camera);
    box.columns = columns_meeting(__fsub_rn(e.x, e.x_max), __fadd_rn(e.x, e.x_max), camera);
    return box;
}

__device__ __forceinline__ vint num_tiles_of(const TileBox& box)
{
    return vmax(box.rows.end - box.rows.begin, 0) * vmax(box.columns.end - box.columns.begin, 0);
}
