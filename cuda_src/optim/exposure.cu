// Exposure of a photograph, and its gradient: an affine change of the rendered colours before the loss (Kerbl et al. 2024, "A
// Hierarchical 3D Gaussian Representation", sec. 6).
//
//     y = x + D (x, 1)        D: 3x4; stores the matrix minus identity
//
// Each warp takes every n-th group of 32 pixels; in the backward pass it writes one row of sums.
// Launched by splat_cli/joint/appearance/exposure.py. The same in plain NumPy: tests/reference/exposure.py.
#include "common.cuh"
#include "lanes.cuh"

struct Matrix { float d[12]; };             // three rows of three factors and an offset

__device__ __forceinline__ Matrix matrix_of(const float* __restrict__ exposures /* [num_views, 3, 12] */, int view)
{
    Matrix m;
    for (int k = 0; k < 12; ++k) m.d[k] = exposures[(size_t)view * 36 + k];
    return m;
}

extern "C" __global__ void apply_exposure(
    const Camera* __restrict__ cameras,     // [num_views]
    const IterState* __restrict__ state,    // [1]
    const float* __restrict__ exposures,    // [num_views, 3, 12] D; first and second moments
    const float* __restrict__ image,        // [3, height, width]
    float* __restrict__ exposed)            // [3, height, width]
{
    if (state->overflowed) return;
    const int plane = cameras[state->view].width * cameras[state->view].height;
    const Matrix m = matrix_of(exposures, state->view);
    for (int p = 32 * (blockIdx.x * blockDim.y + threadIdx.y); p < plane; p += 32 * gridDim.x * blockDim.y) {
        const vbool in = p + lane_id() < plane;
        const vfloat r = load_row(image + p, in), g = load_row(image + plane + p, in), b = load_row(image + 2 * plane + p, in);
        store_row(exposed + p, r + (m.d[0] * r + m.d[1] * g + m.d[2] * b + m.d[3]), in);
        store_row(exposed + plane + p, g + (m.d[4] * r + m.d[5] * g + m.d[6] * b + m.d[7]), in);
        store_row(exposed + 2 * plane + p, b + (m.d[8] * r + m.d[9] * g + m.d[10] * b + m.d[11]), in);
    }
}

extern "C" __global__ void apply_exposure_backward(
    const Camera* __restrict__ cameras,     // [num_views]
    const IterState* __restrict__ state,    // [1]
    const float* __restrict__ exposures,    // [num_views, 3, 12]
    const float* __restrict__ image,        // [3, height, width] before the exposure
    float* __restrict__ d_image,            // [3, height, width] in: gradient after the exposure; out: before it
    float* __restrict__ d_exposure)         // [gridDim.x * blockDim.y, 12] one row of sums per warp
{
    if (state->overflowed) return;
    const int plane = cameras[state->view].width * cameras[state->view].height;
    const int warp = blockIdx.x * blockDim.y + threadIdx.y;
    const Matrix m = matrix_of(exposures, state->view);
    vfloat sums[12];
    for (int k = 0; k < 12; ++k) sums[k] = 0.0f;
    for (int p = 32 * warp; p < plane; p += 32 * gridDim.x * blockDim.y) {
        const vbool in = p + lane_id() < plane;
        const vfloat r = load_row(image + p, in), g = load_row(image + plane + p, in), b = load_row(image + 2 * plane + p, in);
        vfloat d[3];
#pragma unroll
        for (int c = 0; c < 3; ++c) {
            d[c] = load_row(d_image + c * plane + p, in);
            sums[4 * c] += d[c] * r; sums[4 * c + 1] += d[c] * g; sums[4 * c + 2] += d[c] * b; sums[4 * c + 3] += d[c];
        }
#pragma unroll
        for (int c = 0; c < 3; ++c)
            store_row(d_image + c * plane + p, d[c] + (m.d[c] * d[0] + m.d[4 + c] * d[1] + m.d[8 + c] * d[2]), in);
    }
    store_sums(d_exposure + warp * 12, sums);
}
