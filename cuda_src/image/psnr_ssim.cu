// Sums for PSNR and SSIM of a rendered image, rounded to 8 bits, against its photograph; eval/metrics.py divides them. SSIM as in
// optim/l1_ssim.cu. The sums are integers, so that they do not depend on the order of the blocks.
// A block owns 32x32 pixels of one channel (blockIdx.z), a warp owns 4 rows of 32 pixels, a lane owns one column.
// Launched by splat_cli/eval/metrics.py. The same in plain NumPy: tests/reference/metrics.py.
#include "common.cuh"
#include "lanes.cuh"
#include "optim/ssim_window.cuh"

#define SSIM_ONE 1073741824.0f      // 2^30: an SSIM of 1
#define ROUNDER 12582912.0f         // 1.5 * 2^23: when added to a float, the low bits hold the nearest integer

// A value in 8 bits: times 255, rounded to nearest, ties to even; NaN gives 0.
__device__ __forceinline__ vint to_8bit(vfloat value)
{
    const vfloat clamped = vmin(vmax(value, vfloat(0.0f)), vfloat(1.0f));
    return float_bits(__fadd_rn(__fmul_rn(clamped, vfloat(255.0f)), vfloat(ROUNDER))) & 255;
}

extern "C" __global__ void __launch_bounds__(256) psnr_ssim(
    int width, int height,
    const float* __restrict__ image,            // [3, height, width]
    const unsigned char* __restrict__ photo,    // [height, width, 3]
    const unsigned char* __restrict__ mask,     // [height, width] 0: the pixel does not count, and is black in both images; may be null
    unsigned char* __restrict__ rounded,        // [height, width, 3] the image in 8 bits
    unsigned long long* __restrict__ sums)      // [2] accumulated: squared differences (0 to 255^2 each); SSIM * SSIM_ONE, signed
{
    __shared__ float xs[ROWS * COLUMNS], ys[ROWS * COLUMNS];
    __shared__ float rows[5][ROWS * WIDTH];  // row-convolved x, y, x^2, y^2, xy
    const int left = blockIdx.x * WIDTH, top = blockIdx.y * HEIGHT, channel = blockIdx.z;
    image += (size_t)channel * width * height;
#ifdef SPLAT_CPU
    stage_rows(width, height, left, top, [&](int i, int p, vbool in, vbool of_row) {
        if (mask) in = in & (load_row(mask + p, in) > 0);
        store_row(xs + i, to_float(to_8bit(load_row(image + p, in))) * (1.0f / 255.0f), of_row);
        store_row(ys + i, to_float(load(photo, 3 * (p + lane_id()) + channel, in)) * (1.0f / 255.0f), of_row);
    });
#else
    BLOCK_FOR(i, ROWS * COLUMNS) {
        const int x = left + i % COLUMNS - RADIUS, y = top + i / COLUMNS - RADIUS, p = y * width + x;
        const bool in = x >= 0 && x < width && y >= 0 && y < height && (!mask || mask[p]);
        xs[i] = in ? to_8bit(image[p]) * (1.0f / 255.0f) : 0.0f;
        ys[i] = in ? photo[3 * p + channel] * (1.0f / 255.0f) : 0.0f;
    }
#endif
    __syncthreads();
    for (int row = threadIdx.y; row < ROWS; row += blockDim.y) convolve_moments(xs + row * COLUMNS, ys + row * COLUMNS, row, rows);
    __syncthreads();
    vfloat m[5][RUN];
    convolve_columns<5>(rows, threadIdx.y * RUN, m);
#pragma unroll
    for (int k = 0; k < RUN; ++k) {
        const int y = top + threadIdx.y * RUN + k;
        const vint x = left + lane_id(), p = y * width + x;
        const vbool drawn = (x < width) & vbool(y < height);
        const vint value = to_8bit(load(image, p, drawn)), difference = value - load(photo, 3 * p + channel, drawn);
        store(rounded, 3 * p + channel, value, drawn);
        vbool counts = drawn;
        if (mask) counts = counts & (load(mask, p, drawn) > 0);
        const SsimTerms t = ssim_terms(m[0][k], m[1][k], m[2][k], m[3][k], m[4][k]);
        const float squares = warp_sum(select(counts, to_float(difference * difference), vfloat(0.0f)));    // exact
        const float ssim = warp_sum(select(counts, (t.a / t.c) * (t.b / t.d), vfloat(0.0f)));
        if (leader()) {
            atomicAdd(&sums[0], (unsigned long long)squares);
            atomicAdd(&sums[1], (unsigned long long)(long long)(ssim * SSIM_ONE));
        }
    }
}
