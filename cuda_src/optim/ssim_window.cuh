// SSIM of values from 0 to 1: constants, the 11x11 Gaussian window of sigma 1.5 as two 1D convolutions over a block's pixels in shared
// memory, and the terms of SSIM at a pixel.
#pragma once
#include "common.cuh"
#include "lanes.cuh"

#define RADIUS 5
#define WIDTH 32
#define HEIGHT 32
#define RUN 4                       // rows of pixels of a warp; a block has HEIGHT / RUN warps
#define ROWS (HEIGHT + 2 * RADIUS)
#define COLUMNS (WIDTH + 2 * RADIUS)
#define C1 0.0001f
#define C2 0.0009f

// Weight of the window at distance 0 .. 5. The 11 weights sum to 1.
__device__ __forceinline__ float window_weight(int distance)
{
    return distance == 0 ? 0.26601171f : distance == 1 ? 0.21300554f : distance == 2 ? 0.10936069f
         : distance == 3 ? 0.03600077f : distance == 4 ? 0.00759876f : 0.00102838f;
}

#ifdef SPLAT_CPU
// Calls stage(index in shared memory, index in the plane, lanes inside the image, lanes of the row) for up to 32 pixels at a time, until
// the block's pixels and RADIUS around them are done. The indices belong to the first lane.
template <class F> __device__ __forceinline__ void stage_rows(int width, int height, int left, int top, F stage)
{
    for (int row = threadIdx.y; row < ROWS; row += blockDim.y)
        for (int first = 0; first < COLUMNS; first += 32) {
            const vint column = first + lane_id(), x = left - RADIUS + column;
            const int y = top - RADIUS + row, p = y * width + left - RADIUS + first;
            const vbool of_row = column < COLUMNS, above = y >= 0, below = y < height;
            stage(row * COLUMNS + first, p, of_row & (x >= 0) & (x < width) & above & below, of_row);
        }
}
#endif

// 1D convolution of a row in shared memory, at each lane's column.
__device__ __forceinline__ vfloat convolve_row(const float* row /* [COLUMNS] */)
{
    vfloat sum = window_weight(0) * load_row(row + RADIUS, true);
#pragma unroll
    for (int d = 1; d <= RADIUS; ++d)
        sum += window_weight(d) * (load_row(row + RADIUS - d, true) + load_row(row + RADIUS + d, true));
    return sum;
}

// 1D convolutions of x, y, x^2, y^2 and x y for a row of two planes: the moments of SSIM.
__device__ __forceinline__ void convolve_moments(
    const float* x, const float* y /* [COLUMNS] */, int row, float (*sums)[ROWS * WIDTH] /* [5] */)
{
    const vfloat x0 = load_row(x + RADIUS, true), y0 = load_row(y + RADIUS, true);
    vfloat sx = window_weight(0) * x0, sy = window_weight(0) * y0, sxx = sx * x0, syy = sy * y0, sxy = sx * y0;
#pragma unroll
    for (int d = 1; d <= RADIUS; ++d) {
        const float w = window_weight(d);
        const vfloat xa = load_row(x + RADIUS - d, true), xb = load_row(x + RADIUS + d, true);
        const vfloat ya = load_row(y + RADIUS - d, true), yb = load_row(y + RADIUS + d, true);
        sx += w * (xa + xb); sy += w * (ya + yb);
        sxx += w * (xa * xa + xb * xb); syy += w * (ya * ya + yb * yb); sxy += w * (xa * ya + xb * yb);
    }
    const vfloat moments[5] = {sx, sy, sxx, syy, sxy};
    for (int k = 0; k < 5; ++k) store_row(sums[k] + row * WIDTH, moments[k], true);
}

// 1D convolutions down the columns of maps in shared memory, for RUN rows of pixels from `row` on. A value is loaded once for all rows.
template <int MAPS>
__device__ __forceinline__ void convolve_columns(const float (*maps)[ROWS * WIDTH] /* [MAPS] */, int row, vfloat (&sums)[MAPS][RUN])
{
#pragma unroll
    for (int map = 0; map < MAPS; ++map) {
        for (int k = 0; k < RUN; ++k) sums[map][k] = 0.0f;
#pragma unroll
        for (int i = 0; i < RUN + 2 * RADIUS; ++i) {
            const vfloat value = load_row(maps[map] + (row + i) * WIDTH, true);
#pragma unroll
            for (int k = 0; k < RUN; ++k) {
                const int d = i - RADIUS - k;
                if (d >= -RADIUS && d <= RADIUS) sums[map][k] += window_weight(d < 0 ? -d : d) * value;
            }
        }
    }
}

// SSIM = a b / (c d) of a pixel; mx and my are the means of its window.
struct SsimTerms { vfloat mx, my, a, b, c, d; };

// From the convolutions of x, y, x^2, y^2 and x y.
__device__ __forceinline__ SsimTerms ssim_terms(vfloat mx, vfloat my, vfloat xx, vfloat yy, vfloat xy)
{
    SsimTerms t;
    t.mx = mx; t.my = my;
    t.a = 2.0f * mx * my + C1; t.b = 2.0f * (xy - mx * my) + C2;
    t.c = mx * mx + my * my + C1; t.d = (xx - mx * mx) + (yy - my * my) + C2;
    return t;
}
