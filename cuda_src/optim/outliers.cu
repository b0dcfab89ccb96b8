// Finds pixels that differ from the photograph more than a static scene does: people and cars that came and went. The loss leaves them
// out, like the pixels of a mask (l1_ssim.cu).
//
// The threshold is a quantile of the residuals, and each pixel is decided with its neighbours (Sabour et al. 2023, "RobustNeRF"). The histogram
// of residuals is learned over all views (Sabour et al. 2024, "SpotLessSplats"). A lane owns a pixel.
// Launched by splat_cli/joint/outliers.py. The same in plain NumPy: tests/reference/outliers.py.
#include "common.cuh"
#include "lanes.cuh"

#define RADIUS 4                    // px on each side of a pixel: its neighbourhood
#define SIDE (2 * RADIUS + 1)
#define WIDTH 32                    // px of a block
#define HEIGHT 16
#define COLUMNS (WIDTH + 2 * RADIUS)
#define ROWS (HEIGHT + 2 * RADIUS)
#define BINS 128                    // bin k of the histogram begins at a residual of (k / BINS)^2

// Mean absolute difference between a pixel and the photograph, over channels; 0 if the pixel does not count.
__device__ __forceinline__ vfloat residual(
    const Camera& camera, const float* __restrict__ image /* [3, height, width] */, vint p, vbool in)
{
    const unsigned char *photo = (const unsigned char*)camera.photo, *mask = (const unsigned char*)camera.mask;
    const int plane = camera.width * camera.height;
    if (mask) in = in & (load(mask, p, in) > 0);
    vfloat sum = 0.0f;
    for (int c = 0; c < 3; ++c) {
        const vfloat photographed = to_float(load(photo, 3 * p + c, in)) * (1.0f / 255.0f);
        sum += vabs(load(image + (size_t)c * plane, p, in) - photographed);
    }
    return sum * (1.0f / 3.0f);
}

// Marks a pixel if at least `share` of its neighbours within the image exceed the threshold. Marks nothing before step `start`.
extern "C" __global__ void __launch_bounds__(256) find_outliers(
    const Camera* __restrict__ cameras,     // [num_views]
    const IterState* __restrict__ state,    // [1]
    const float* __restrict__ learned,      // [1 + BINS] threshold, then histogram
    int start,
    float share,
    const float* __restrict__ image,        // [3, height, width]
    unsigned char* __restrict__ outliers)   // [height, width] 1 or 0
{
    __shared__ float over[ROWS * COLUMNS];
    __shared__ float sums[ROWS * WIDTH];
    const Camera& camera = cameras[state->view];
    const int left = blockIdx.x * WIDTH, top = blockIdx.y * HEIGHT, width = camera.width, height = camera.height;
    if (state->overflowed || left >= width || top >= height) return;
    const float threshold = state->step > start ? learned[0] : 1e30f;
    for (int row = threadIdx.y; row < ROWS; row += blockDim.y)
        for (int half = 0; half < COLUMNS; half += 32) {
            const vint x = left - RADIUS + half + lane_id();
            const int y = top - RADIUS + row;
            const vbool owned = half + lane_id() < COLUMNS;
            const vbool in = owned & (x >= 0) & (x < width) & vbool(y >= 0 && y < height);
            const vfloat r = residual(camera, image, y * width + x, in);
            store_row(over + row * COLUMNS + half, select(r > threshold, vfloat(1.0f), vfloat(0.0f)), owned);
        }
    __syncthreads();
    for (int row = threadIdx.y; row < ROWS; row += blockDim.y) {
        vfloat sum = 0.0f;
        for (int d = 0; d < SIDE; ++d) sum += load_row(over + row * COLUMNS + d, true);
        store_row(sums + row * WIDTH, sum, true);
    }
    __syncthreads();
    for (int row = threadIdx.y; row < HEIGHT; row += blockDim.y) {
        const int y = top + row, rows = min(y + RADIUS, height - 1) - max(y - RADIUS, 0) + 1;
        const vint x = left + lane_id();
        const vint columns = vmin(x + RADIUS, vint(width - 1)) - vmax(x - RADIUS, vint(0)) + 1;
        vfloat sum = 0.0f;
        for (int d = 0; d < SIDE; ++d) sum += load_row(sums + (row + d) * WIDTH, true);
        const vbool in = (x < width) & vbool(y < height);
        store(outliers, y * width + x, select(sum >= share * to_float(rows * columns), vint(1), vint(0)), in);
    }
}

// Adds the residuals of the view's pixels to a histogram of integers, whose bits do not depend on the order.
extern "C" __global__ void __launch_bounds__(256) count_residuals(
    const Camera* __restrict__ cameras,     // [num_views]
    const IterState* __restrict__ state,    // [1]
    const float* __restrict__ image,        // [3, height, width]
    unsigned* __restrict__ counts)          // [BINS] must be zero before
{
    __shared__ unsigned bins[BINS];
    __shared__ int found[8 * 32];           // bin of each pixel of the block, or -1
    if (state->overflowed) return;
    const Camera& camera = cameras[state->view];
    const unsigned char* mask = (const unsigned char*)camera.mask;
    const int plane = camera.width * camera.height, stride = 32 * gridDim.x * blockDim.y;
    BLOCK_FOR(i, BINS) bins[i] = 0;
    for (int first = 32 * blockIdx.x * blockDim.y; first < plane; first += stride) {
        const vint p = first + 32 * (int)threadIdx.y + lane_id();
        vbool in = p < plane;
        if (mask) in = in & (load(mask, p, in) > 0);
        const vfloat r = residual(camera, image, p, in);
        const vint bin = to_int(vmin(vsqrt(r) * (float)BINS, vfloat(BINS - 1.0f)));
        store_row(found + 32 * threadIdx.y, select(in & (r >= 0.0f), bin, vint(-1)), true);
        __syncthreads();
        BLOCK_FOR(i, 8 * 32) if (found[i] >= 0) atomicAdd(bins + found[i], 1u);
        __syncthreads();
    }
    __syncthreads();
    BLOCK_FOR(i, BINS) if (bins[i]) atomicAdd(counts + i, bins[i]);
}

// Adds the view's counts to the learned histogram, in which earlier views fade, and updates the threshold. One block; one thread sums.
extern "C" __global__ void __launch_bounds__(BINS) learn_threshold(
    const Camera* __restrict__ cameras,     // [num_views]
    const IterState* __restrict__ state,    // [1]
    float keep,                             // factor of the old histogram in each step
    float quantile, float factor,           // threshold = factor * (residual at the quantile)
    unsigned* __restrict__ counts,          // [BINS] reset to zero
    float* __restrict__ learned)            // [1 + BINS] threshold, then histogram
{
    __shared__ float histogram[BINS];
    if (state->overflowed) return;
    const float weight = 1.0f / cameras[state->view].num_pixels;
    BLOCK_FOR(i, BINS) {
        learned[1 + i] = histogram[i] = keep * learned[1 + i] + weight * counts[i];
        counts[i] = 0;
    }
    __syncthreads();
    if (threadIdx.y > 0 || !leader()) return;
    float total = 0.0f, below = 0.0f;
    for (int k = 0; k < BINS; ++k) total += histogram[k];
    int k = 0;
    while (k < BINS - 1 && below + histogram[k] < quantile * total) below += histogram[k++];
    const float edge = (k + (quantile * total - below) / fmaxf(histogram[k], 1e-20f)) * (1.0f / BINS);
    learned[0] = factor * edge * edge;
}
