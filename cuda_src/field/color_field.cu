// Connects the splats with the network that colours them.
//
//     list_visible                    rows of the network: the visible splats, in any order
//     field_inputs, gather_features   inputs of a row: position, viewing direction, learned features
//     field_colors                    colour = max(gain * (colour of the splat's SH) + offset, 0); the network outputs gain - 1 and offset
//     ..._backward, add_...           the same steps backwards
//
// One thread owns one row; in list_visible one splat.
// Launched by splat_cli/field/coloring.py. The same in plain NumPy: tests/reference/color_field.py.
#include "field/contraction.cuh"
#include "raster/sh.cuh"

// Position and size of the scene. field/color_field.py mirrors this layout.
struct FieldBounds { float center[3], inv_radius; };

__device__ __forceinline__ float3 load_vec_at(const float* __restrict__ planes /* [3, stride] */, size_t stride, int i)
{
    return make_vec(planes[i], planes[stride + i], planes[2 * stride + i]);
}

__device__ __forceinline__ float3 normalized_position(float3 mean, const FieldBounds& frame)
{
    return scale(frame.inv_radius, sub(mean, make_vec(frame.center[0], frame.center[1], frame.center[2])));
}

__device__ __forceinline__ void store_vec_at(float* __restrict__ planes /* [3, stride] */, size_t stride, int row, float3 v)
{
    planes[row] = v.x; planes[stride + row] = v.y; planes[2 * stride + row] = v.z;
}

extern "C" __global__ void list_visible(
    const IterState* __restrict__ state,    // [1]
    const float* __restrict__ depths,       // [capacity] 0 if invisible
    int* __restrict__ splat_from_row,       // [capacity]
    unsigned* __restrict__ num_rows)        // [1] must be 0 before; remains 0 in a step that has overflowed
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (int)state->num_splats || state->overflowed) return;
    if (depths[i] > 0.0f) splat_from_row[atomicAdd(num_rows, 1u)] = i;
}

extern "C" __global__ void field_inputs(
    const Camera* __restrict__ cameras,     // [num_views]
    const IterState* __restrict__ state,    // [1]
    const float* __restrict__ params,       // [rows, capacity]
    int capacity,
    FieldBounds frame,
    const int* __restrict__ splat_from_row, // [capacity]
    const unsigned* __restrict__ num_rows,  // [1]
    float* __restrict__ positions,          // [3, capacity] contracted into the unit cube
    float* __restrict__ directions)         // [3, capacity] of length 1
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= (int)*num_rows) return;
    const float3 mean = load_vec_at(params, capacity, splat_from_row[row]), ray = ray_to(mean, cameras[state->view]);
    store_vec_at(positions, capacity, row, contract(normalized_position(mean, frame)));
    store_vec_at(directions, capacity, row, scale(rsqrtf(dot(ray, ray)), ray));
}

// blockIdx.y is the feature.
extern "C" __global__ void gather_features(
    const float* __restrict__ features,     // [size, capacity] of all splats
    int capacity,
    const int* __restrict__ splat_from_row, // [capacity]
    const unsigned* __restrict__ num_rows,  // [1]
    float* __restrict__ inputs)             // [size, capacity]
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= (int)*num_rows) return;
    const size_t plane = (size_t)blockIdx.y * capacity;
    inputs[plane + row] = features[plane + splat_from_row[row]];
}

// blockIdx.y is the feature.
extern "C" __global__ void add_feature_gradients(
    int capacity,
    const int* __restrict__ splat_from_row, // [capacity]
    const unsigned* __restrict__ num_rows,  // [1]
    const float* __restrict__ d_inputs,     // [size, capacity]
    float* __restrict__ d_features)         // [size, capacity] per splat; gradients of visible splats are added
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= (int)*num_rows) return;
    const size_t plane = (size_t)blockIdx.y * capacity;
    d_features[plane + splat_from_row[row]] += d_inputs[plane + row];
}

// Colour of splat i from its own SH, before the network corrects it.
__device__ __forceinline__ float3 color_from_sh(
    const float* __restrict__ params /* [rows, stride] */, size_t stride, int i, int degree, float3 direction)
{
    const float* coefficients = params + ROW_SH0 * stride;
    return sh_color(degree, direction, [&](int k) { return load_vec_at(coefficients + 3 * k * stride, stride, i); });
}

extern "C" __global__ void field_colors(
    const IterState* __restrict__ state,    // [1]
    const float* __restrict__ params,       // [rows, capacity]
    int capacity,
    const int* __restrict__ splat_from_row, // [capacity]
    const unsigned* __restrict__ num_rows,  // [1]
    const float* __restrict__ directions,   // [3, capacity]
    const float* __restrict__ outputs,      // [6, capacity] gain - 1 (rgb), offset (rgb)
    float4* __restrict__ colors)            // [capacity] rgb, unused; per splat
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= (int)*num_rows) return;
    const size_t stride = capacity;
    const int i = splat_from_row[row];
    const float3 color = color_from_sh(params, stride, i, state->sh_degree, load_vec_at(directions, stride, row));
    const float own[3] = {color.x, color.y, color.z};
    float rgb[3];
    for (int c = 0; c < 3; ++c)
        rgb[c] = fmaxf(own[c] * (1.0f + outputs[c * stride + row]) + outputs[(3 + c) * stride + row], 0.0f);
    colors[i] = make_float4(rgb[0], rgb[1], rgb[2], 0.0f);
}

extern "C" __global__ void field_colors_backward(
    const IterState* __restrict__ state,    // [1]
    const float* __restrict__ params,       // [rows, capacity]
    int capacity,
    const int* __restrict__ splat_from_row, // [capacity]
    const unsigned* __restrict__ num_rows,  // [1]
    const float* __restrict__ directions,   // [3, capacity]
    const float* __restrict__ outputs,      // [6, capacity]
    const float4* __restrict__ colors,      // [capacity] 0 if it was clamped
    float* __restrict__ d_splats,           // [capacity, SPLAT_SUMS] d rgb becomes the gradient of the SH colour, as if nothing was clamped
    float* __restrict__ d_outputs)          // [6, capacity]
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= (int)*num_rows) return;
    const size_t stride = capacity;
    const int i = splat_from_row[row];
    const float4 rgb = colors[i];
    const float3 color = color_from_sh(params, stride, i, state->sh_degree, load_vec_at(directions, stride, row));
    const float own[3] = {color.x, color.y, color.z};
    const bool free[3] = {rgb.x > 0.0f, rgb.y > 0.0f, rgb.z > 0.0f};
    for (int c = 0; c < 3; ++c) {
        float* d_color = d_splats + (size_t)i * SPLAT_SUMS + SUM_RED + c;
        const float d = free[c] ? *d_color : 0.0f;      // only here: project_backward handles clamping itself
        d_outputs[c * stride + row] = d * own[c];
        d_outputs[(3 + c) * stride + row] = d;
        *d_color *= 1.0f + outputs[c * stride + row];
    }
}
