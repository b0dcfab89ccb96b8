// Depth supervision by the scene's points: at a point's pixel, the blended inverse depth should equal the point's (compare Deng et al.
// 2022, "Depth-supervised NeRF"; inverse, so that distant points count little). The kernels that blend colours also blend inverse
// depths, as the red channel and without a background; the kernels here run in between. Green is the depth and blue is 1, which becomes
// the opacity: depth_maps.cu may fit the scale and shift of maps to them.
// Launched by splat_cli/joint/depth/supervision.py. The same in plain NumPy: tests/reference/depth.py.
#include "optim/per_view.cuh"
#include "raster/projection.cuh"

// Fills the values that are blended instead of colours. One thread owns one splat.
extern "C" __global__ void inverse_depths(
    const IterState* __restrict__ state,    // [1]
    const float* __restrict__ depths,       // [capacity] z; 0 if invisible
    float4* __restrict__ values,            // [capacity] 1/z, z, 1, 0
    float* __restrict__ d_values)           // [capacity, SPLAT_SUMS] zeroed for visible splats
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (int)state->num_splats || state->overflowed || !(depths[i] > 0.0f)) return;
    float4 value = {};
    value.x = 1.0f / depths[i]; value.y = depths[i]; value.z = 1.0f;
    values[i] = value;
    for (int k = 0; k < SPLAT_SUMS; ++k) d_values[(size_t)i * SPLAT_SUMS + k] = 0.0f;
}

// Removes the background from the blended values and clears their gradient. One thread owns one pixel.
extern "C" __global__ void clear_depth(
    const Camera* __restrict__ cameras,     // [num_views]
    const IterState* __restrict__ state,    // [1]
    const float* __restrict__ final_T,      // [height, width]
    float* __restrict__ image,              // [3, height, width] inverse depth, depth, opacity
    float* __restrict__ d_image)            // [3, height, width]
{
    const int plane = cameras[state->view].width * cameras[state->view].height, p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= plane || state->overflowed) return;
    for (int c = 0; c < 3; ++c) {
        image[c * plane + p] -= final_T[p] * state->background[c];
        d_image[c * plane + p] = 0.0f;
    }
}

// Gradient of weight * (mean over points of |blended inverse depth - target|) / (mean over points of target). One thread owns one
// point; points are in different pixels.
extern "C" __global__ void depth_loss(
    const IterState* __restrict__ state,    // [1]
    const int* __restrict__ begins,         // [num_views + 1] range of each view's points
    const int* __restrict__ pixels,         // [num_points] row * width + column
    const float* __restrict__ targets,      // [num_points] 1/z
    const float* __restrict__ scales,       // [num_views] 1 / sum of the view's targets
    float weight, float weight_final,
    int max_steps,
    const float* __restrict__ image,        // [3, height, width]
    float* __restrict__ d_image)            // [3, height, width] red is written at the points
{
    if (state->overflowed) return;
    const int point = begins[state->view] + blockIdx.x * blockDim.x + threadIdx.x;
    if (point >= begins[state->view + 1]) return;
    const float difference = image[pixels[point]] - targets[point];
    const float d = decayed(weight, weight_final, *state, max_steps) * scales[state->view];
    d_image[pixels[point]] = difference > 0.0f ? d : difference < 0.0f ? -d : 0.0f;
}

// Adds the gradients of the blended inverse depths to those of the colours: the moments to d_splats, and the gradient of the value to
// that of the positions. One thread owns one splat.
extern "C" __global__ void depth_backward(
    const Camera* __restrict__ cameras,     // [num_views]
    const IterState* __restrict__ state,    // [1]
    int capacity,
    const float* __restrict__ depths,       // [capacity] 0 if invisible
    const float* __restrict__ d_values,     // [capacity, SPLAT_SUMS] from blend_backward
    float* __restrict__ d_splats,           // [capacity, SPLAT_SUMS]
    float* __restrict__ d_means)            // [3, capacity] overwritten for visible splats
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (int)state->num_splats || state->overflowed || !(depths[i] > 0.0f)) return;
    const float* row = d_values + (size_t)i * SPLAT_SUMS;
    for (int k = 0; k < SUM_RED; ++k) d_splats[(size_t)i * SPLAT_SUMS + k] += row[k];
    const float d_z = -row[SUM_RED] / (depths[i] * depths[i]);
    const float* w2c = cameras[state->view].w2c;
    for (int k = 0; k < 3; ++k) d_means[(size_t)k * capacity + i] = d_z * w2c[8 + k];
}
