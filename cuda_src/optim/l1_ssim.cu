// Training loss (1 - lambda) L1 + lambda (1 - SSIM) and its gradient, directly from the 8-bit photograph.
// SSIM with an 11x11 Gaussian window of sigma 1.5 and zero padding (Wang et al. 2004), convolved in two 1D passes.
// A block owns 32x32 pixels of one channel (blockIdx.z), a warp owns 4 rows of 32 pixels, a lane owns one column.
//
// With the render x, the photograph y, and * the convolution with the window w:
//   mx = w * x, my = w * y, xx = w * x^2, yy = w * y^2, xy = w * (x y)
//   SSIM = a b / (c d), a = 2 mx my + C1, b = 2 (xy - mx my) + C2, c = mx^2 + my^2 + C1, d = (xx - mx^2) + (yy - my^2) + C2
//
// l1_ssim writes the derivatives of SSIM at each pixel. mx is in all of a, b, c and d; xx is in d and xy in b:
//   by_mx = 2 my (b - a) / (c d) - 2 mx SSIM (1 / c - 1 / d)        by_xx = -SSIM / d        by_xy = 2 a / (c d)
// A pixel of x is in the windows of 11x11 pixels. l1_ssim_backward sums over them: a convolution again, because w is symmetric:
//   d (sum of SSIM) / dx = w * by_mx + 2 x (w * by_xx) + y (w * by_xy)
//
// Launched by splat_cli/joint/loss.py. The same in plain NumPy: tests/reference/ssim_loss.py.
#include "common.cuh"
#include "lanes.cuh"
#include "optim/ssim_window.cuh"

struct Photo { const unsigned char *pixels, *mask, *outliers; int width, height, channel; };

__device__ __forceinline__ Photo photo_of(const Camera& camera, const unsigned char* outliers /* [height, width] or null */, int channel)
{
    Photo p = {(const unsigned char*)camera.photo, (const unsigned char*)camera.mask, outliers, camera.width, camera.height, channel};
    return p;
}

__device__ __forceinline__ bool counts(const Photo& p, int x, int y)
{
    return x >= 0 && x < p.width && y >= 0 && y < p.height && (!p.mask || p.mask[y * p.width + x])
        && !(p.outliers && p.outliers[y * p.width + x]);
}

extern "C" __global__ void __launch_bounds__(256) l1_ssim(
    const Camera* __restrict__ cameras,     // [num_views]
    IterState* __restrict__ state,          // [1] adds to loss_l1, loss_l2 and loss_ssim: sums over pixels and channels
    float ssim_weight,
    const unsigned char* __restrict__ outliers, // [height, width] pixels that are not 0 count as correct; may be null
    const float* __restrict__ image,        // [3, height, width]
    float* __restrict__ d_maps,             // [3 derivatives, 3, height, width] of SSIM by mx, xx, xy
    float* __restrict__ errors)             // [3, height, width] each value's part of the loss; may be null
{
    __shared__ float xs[ROWS * COLUMNS], ys[ROWS * COLUMNS];
    __shared__ float sums[5][ROWS * WIDTH];  // row-convolved x, y, x^2, y^2, xy
    __shared__ float losses[3];
    const Camera& camera = cameras[state->view];
    const int left = blockIdx.x * WIDTH, top = blockIdx.y * HEIGHT, plane = camera.width * camera.height;
    if (state->overflowed || left >= camera.width || top >= camera.height) return;
    const Photo photo = photo_of(camera, outliers, blockIdx.z);
#ifdef SPLAT_CPU
    stage_rows(camera.width, camera.height, left, top, [&](int i, int p, vbool in, vbool of_row) {
        if (photo.mask) in = in & (load_row(photo.mask + p, in) > 0);
        if (photo.outliers) in = in & (load_row(photo.outliers + p, in) == 0);
        store_row(xs + i, load_row(image + blockIdx.z * plane + p, in), of_row);
        const vint photographed = load(photo.pixels, 3 * (p + lane_id()) + photo.channel, in);
        store_row(ys + i, to_float(photographed) * (1.0f / 255.0f), of_row);
    });
#else
    BLOCK_FOR(i, ROWS * COLUMNS) {
        const int x = left + i % COLUMNS - RADIUS, y = top + i / COLUMNS - RADIUS, p = y * camera.width + x;
        const bool in = counts(photo, x, y);
        xs[i] = in ? image[blockIdx.z * plane + p] : 0.0f;
        ys[i] = in ? photo.pixels[3 * p + photo.channel] * (1.0f / 255.0f) : 0.0f;
    }
#endif
    BLOCK_FOR(i, 3) losses[i] = 0.0f;
    __syncthreads();
    for (int row = threadIdx.y; row < ROWS; row += blockDim.y) convolve_moments(xs + row * COLUMNS, ys + row * COLUMNS, row, sums);
    __syncthreads();
    vfloat l1 = 0.0f, l2 = 0.0f, ssim_sum = 0.0f;
    vfloat moments[5][RUN];
    convolve_columns<5>(sums, threadIdx.y * RUN, moments);
#pragma unroll
    for (int k = 0; k < RUN; ++k) {
        const vint x = left + lane_id();
        const int row = threadIdx.y * RUN + k, y = top + row;
        vbool in = (x < camera.width) & vbool(y < camera.height);
        const vint p = y * camera.width + x;
        if (photo.mask) in = in & (load(photo.mask, p, in) > 0);
        if (photo.outliers) {
            const vbool left_out = in & (load(photo.outliers, p, in) > 0);
            ssim_sum += select(left_out, vfloat(1.0f), vfloat(0.0f));
            in = in & !left_out;
        }
        const SsimTerms t = ssim_terms(moments[0][k], moments[1][k], moments[2][k], moments[3][k], moments[4][k]);
        const vfloat inv_cd = vrcp(t.c * t.d), ssim = t.a * t.b * inv_cd;
        const int centre = (row + RADIUS) * COLUMNS + RADIUS;
        const vfloat difference = load_row(xs + centre, true) - load_row(ys + centre, true);
        l1 += select(in, vabs(difference), vfloat(0.0f));
        l2 += select(in, difference * difference, vfloat(0.0f));
        ssim_sum += select(in, ssim, vfloat(0.0f));
        const vbool drawn = (x < camera.width) & vbool(y < camera.height);
        if (errors) {
            const vfloat error = (1.0f - ssim_weight) * vabs(difference) + ssim_weight * (1.0f - ssim);
            store(errors + blockIdx.z * plane, p, select(in, error, vfloat(0.0f)), drawn);
        }
        const vfloat by_xx = -(ssim * vrcp(t.d)), by_xy = 2.0f * t.a * inv_cd;
        const vfloat by_mx = 2.0f * t.my * (t.b - t.a) * inv_cd - 2.0f * t.mx * ssim * (vrcp(t.c) - vrcp(t.d));
        float* out = d_maps + blockIdx.z * plane;
        store(out, p, select(in, by_mx, vfloat(0.0f)), drawn);
        store(out + 3 * plane, p, select(in, by_xx, vfloat(0.0f)), drawn);
        store(out + 6 * plane, p, select(in, by_xy, vfloat(0.0f)), drawn);
    }
    vfloat all[3] = {l1, l2, ssim_sum};
    warp_add(losses, all);
    __syncthreads();
    BLOCK_FOR(i, 3) atomicAdd(i == 0 ? &state->loss_l1 : i == 1 ? &state->loss_l2 : &state->loss_ssim, losses[i]);
}

extern "C" __global__ void __launch_bounds__(256) l1_ssim_backward(
    const Camera* __restrict__ cameras,     // [num_views]
    IterState* __restrict__ state,          // [1] updates loss and psnr, the running means
    float ssim_weight,
    const unsigned char* __restrict__ outliers, // [height, width] as in l1_ssim; may be null
    const float* __restrict__ image,        // [3, height, width]
    const float* __restrict__ d_maps,       // [3, 3, height, width]
    float* __restrict__ d_image)            // [3, height, width]
{
    __shared__ float maps[3][ROWS * COLUMNS];
    __shared__ float sums[3][ROWS * WIDTH];
    const Camera& camera = cameras[state->view];
    const int left = blockIdx.x * WIDTH, top = blockIdx.y * HEIGHT, plane = camera.width * camera.height;
    if (state->overflowed || left >= camera.width || top >= camera.height) return;
    const Photo photo = photo_of(camera, outliers, blockIdx.z);
    const float per_value = 1.0f / (3.0f * camera.num_pixels);
    if (blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0) {
        BLOCK_FOR(i, 1) {
            const float loss = (1.0f - ssim_weight) * state->loss_l1 * per_value + ssim_weight * (1.0f - state->loss_ssim * per_value);
            const float psnr = -10.0f * log10f(fmaxf(state->loss_l2 * per_value, 1e-10f));
            const float share = state->step <= 1 ? 1.0f : 0.02f;
            if (loss_is_finite(*state)) {
                state->loss += share * (loss - state->loss);
                state->psnr += share * (psnr - state->psnr);
            }
        }
    }
#ifdef SPLAT_CPU
    stage_rows(camera.width, camera.height, left, top, [&](int i, int p, vbool in, vbool of_row) {
        for (int k = 0; k < 3; ++k) store_row(maps[k] + i, load_row(d_maps + (size_t)(3 * k + blockIdx.z) * plane + p, in), of_row);
    });
#else
    BLOCK_FOR(i, ROWS * COLUMNS) {
        const int x = left + i % COLUMNS - RADIUS, y = top + i / COLUMNS - RADIUS;
        const bool in = x >= 0 && x < camera.width && y >= 0 && y < camera.height;
        const size_t p = (size_t)blockIdx.z * plane + y * camera.width + x;
        for (int k = 0; k < 3; ++k) maps[k][i] = in ? d_maps[(size_t)3 * k * plane + p] : 0.0f;
    }
#endif
    __syncthreads();
    for (int row = threadIdx.y; row < ROWS; row += blockDim.y)
        for (int k = 0; k < 3; ++k) store_row(sums[k] + row * WIDTH, convolve_row(maps[k] + row * COLUMNS), true);
    __syncthreads();
    vfloat convolved[3][RUN];
    convolve_columns<3>(sums, threadIdx.y * RUN, convolved);
#pragma unroll
    for (int k = 0; k < RUN; ++k) {
        const vint x = left + lane_id();
        const int y = top + threadIdx.y * RUN + k;
        const vbool in = (x < camera.width) & vbool(y < camera.height);
        const vint p = y * camera.width + x;
        const vfloat rendered = load(image + blockIdx.z * plane, p, in);
        const vfloat photographed = to_float(load(photo.pixels, 3 * p + photo.channel, in)) * (1.0f / 255.0f);
        const vfloat difference = rendered - photographed;
        const vfloat sign = select(difference > 0.0f, vfloat(1.0f), select(difference < 0.0f, vfloat(-1.0f), vfloat(0.0f)));
        const vfloat d_ssim = convolved[0][k] + 2.0f * rendered * convolved[1][k] + photographed * convolved[2][k];
        vfloat d = ((1.0f - ssim_weight) * sign - ssim_weight * d_ssim) * per_value;
        if (photo.mask) d = select(load(photo.mask, p, in) > 0, d, vfloat(0.0f));
        if (photo.outliers) d = select(load(photo.outliers, p, in) > 0, vfloat(0.0f), d);
        store(d_image + blockIdx.z * plane, p, d, in);
    }
}
