// Opacity in free space: the ray from a camera to a point that it sees is free up to shortly before the point. Splats nearer than a depth
// are blended with 1 in place of a colour, others with 0, by the kernels that blend colours: what comes out is the opacity before
// that depth, which should be 0 wherever the view's point lies well behind. A step measures it at LAYERS depths, one a channel.
#include "optim/per_view.cuh"

#define LAYERS 3
#define REACH 0.8f                  // of a point's depth: where its free space ends; eval/free_space.py has it too

// Depths of this step: where the free space of points ends that are drawn at random. A thread owns a layer.
extern "C" __global__ void draw_layers(
    const IterState* __restrict__ state,    // [1]
    const int* __restrict__ begins,         // [num_views + 1] each view's points
    const float* __restrict__ inverse_depths,   // [num_points] 1/z
    float* __restrict__ layers)             // [LAYERS] z; 0 in a view without points
{
    if (state->overflowed || threadIdx.x >= LAYERS) return;
    const int begin = begins[state->view], num = begins[state->view + 1] - begin;
    const unsigned drawn = pcg(pcg((unsigned)state->step) + threadIdx.x);
    layers[threadIdx.x] = num > 0 ? REACH / inverse_depths[begin + (int)(drawn % (unsigned)num)] : 0.0f;
}

// What is blended in place of colours. A thread owns a splat.
extern "C" __global__ void nearer_than_layers(
    const IterState* __restrict__ state,    // [1]
    const float* __restrict__ depths,       // [capacity] z; 0 where invisible
    const float* __restrict__ layers,       // [LAYERS]
    float4* __restrict__ values,            // [capacity] 1 before a layer, else 0
    float* __restrict__ d_values)           // [capacity, SPLAT_SUMS] zeroed for visible splats; may be null
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (int)state->num_splats || state->overflowed || !(depths[i] > 0.0f)) return;
    float4 value = {};
    value.x = depths[i] < layers[0] ? 1.0f : 0.0f;
    value.y = depths[i] < layers[1] ? 1.0f : 0.0f;
    value.z = depths[i] < layers[2] ? 1.0f : 0.0f;
    values[i] = value;
    if (!d_values) return;
    for (int k = 0; k < SPLAT_SUMS; ++k) d_values[(size_t)i * SPLAT_SUMS + k] = 0.0f;
}

// The gradient of weight * mean over points and layers of opacity^2, of the layers in a point's free space. A thread owns a point; no two
// lie in one pixel.
extern "C" __global__ void free_space_loss(
    const Camera* __restrict__ cameras,     // [num_views]
    const IterState* __restrict__ state,    // [1]
    const int* __restrict__ begins,         // [num_views + 1]
    const int* __restrict__ pixels,         // [num_points] row * width + column
    const float* __restrict__ inverse_depths,   // [num_points]
    const float* __restrict__ layers,       // [LAYERS]
    float weight,
    const float* __restrict__ image,        // [3, height, width] opacity before each layer
    float* __restrict__ d_image)            // [3, height, width] zero elsewhere
{
    if (state->overflowed) return;
    const int num = begins[state->view + 1] - begins[state->view], own = blockIdx.x * blockDim.x + threadIdx.x;
    if (own >= num) return;
    const int point = begins[state->view] + own, plane = cameras[state->view].width * cameras[state->view].height;
    for (int k = 0; k < LAYERS; ++k) {
        const int p = k * plane + pixels[point];
        if (layers[k] * inverse_depths[point] <= REACH) d_image[p] = 2.0f * weight / (LAYERS * num) * image[p];
    }
}

// Adds the moments of the opacity's gradient to those of the colours'. A thread owns a splat.
extern "C" __global__ void free_space_backward(
    const IterState* __restrict__ state,    // [1]
    const float* __restrict__ depths,       // [capacity] 0 where invisible
    const float* __restrict__ d_values,     // [capacity, SPLAT_SUMS] from blend_backward
    float* __restrict__ d_splats)           // [capacity, SPLAT_SUMS]
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (int)state->num_splats || state->overflowed || !(depths[i] > 0.0f)) return;
    for (int k = 0; k < SUM_RED; ++k) d_splats[(size_t)i * SPLAT_SUMS + k] += d_values[(size_t)i * SPLAT_SUMS + k];
}
