// The Gaussian window of SSIM, 11x11 with sigma 1.5: its convolution in two 1D passes over a block's pixels in shared memory.
#pragma once
#include "common.cuh"
#include "lanes.cuh"

#define RADIUS 5
#define WIDTH 32
#define HEIGHT 16
#define ROWS (HEIGHT + 2 * RADIUS)
#define COLUMNS (WIDTH + 2 * RADIUS)

// Weights of the window at distance 0 .. 5, normalised over the 11 taps.
__device__ __forceinline__ float window_weight(int distance)
{
    return distance == 0 ? 0.26601171f : distance == 1 ? 0.21300554f : distance == 2 ? 0.10936069f
         : distance == 3 ? 0.03600077f : distance == 4 ? 0.00759876f : 0.00102838f;
}

#ifdef SPLAT_CPU
// stage(index in shared memory, pixel in the plane, lanes inside the image, lanes of the row) for 32 pixels at a time, or the rest of
// a row, of the block's pixels and RADIUS around them; index and pixel are those of the first lane.
template <class F> __device__ __forceinline__ void stage_rows(const Camera& camera, int left, int top, F stage)
{
    for (int row = threadIdx.y; row < ROWS; row += blockDim.y)
        for (int first = 0; first < COLUMNS; first += 32) {
            const vint column = first + lane_id(), x = left - RADIUS + column;
            const int y = top - RADIUS + row, p = y * camera.width + left - RADIUS + first;
            const vbool of_row = column < COLUMNS, above = y >= 0, below = y < camera.height;
            stage(row * COLUMNS + first, p, of_row & (x >= 0) & (x < camera.width) & above & below, of_row);
        }
}
#endif

// The 1D window over a row of shared memory around each lane's column.
__device__ __forceinline__ vfloat convolve_row(const float* row /* [COLUMNS] */)
{
    vfloat sum = window_weight(0) * load_row(row + RADIUS, true);
#pragma unroll
    for (int d = 1; d <= RADIUS; ++d)
        sum += window_weight(d) * (load_row(row + RADIUS - d, true) + load_row(row + RADIUS + d, true));
    return sum;
}

// The 1D window down the columns of shared memory with rows of WIDTH.
__device__ __forceinline__ vfloat convolve_column(const float* top /* [1 + 2 RADIUS, WIDTH] */)
{
    vfloat sum = window_weight(0) * load_row(top + RADIUS * WIDTH, true);
#pragma unroll
    for (int d = 1; d <= RADIUS; ++d)
        sum += window_weight(d) * (load_row(top + (RADIUS - d) * WIDTH, true) + load_row(top + (RADIUS + d) * WIDTH, true));
    return sum;
}
