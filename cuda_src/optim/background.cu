// Gradient of a learned background colour: d_background[c] = sum over pixels of T d_image[c], with the transmittance T that the splats
// leave. Each warp takes every n-th group of 32 pixels and writes one row of sums.
// Launched by splat_cli/joint/background.py. The same in plain NumPy: tests/reference/blend.py.
#include "common.cuh"
#include "lanes.cuh"

extern "C" __global__ void background_backward(
    const Camera* __restrict__ cameras,     // [num_views]
    const IterState* __restrict__ state,    // [1]
    const float* __restrict__ final_T,      // [height, width]
    const float* __restrict__ d_image,      // [3, height, width]
    float* __restrict__ d_background)       // [gridDim.x * blockDim.y, 3] one row of sums per warp
{
    if (state->overflowed) return;
    const int plane = cameras[state->view].width * cameras[state->view].height;
    const int warp = blockIdx.x * blockDim.y + threadIdx.y;
    vfloat sums[3];
    for (int c = 0; c < 3; ++c) sums[c] = 0.0f;
    for (int p = 32 * warp; p < plane; p += 32 * gridDim.x * blockDim.y) {
        const vbool in = p + lane_id() < plane;
        const vfloat T = load_row(final_T + p, in);
#pragma unroll
        for (int c = 0; c < 3; ++c) sums[c] += T * load_row(d_image + c * plane + p, in);
    }
    store_sums(d_background + warp * 3, sums);
}
