// From the gradients of projected splats to those of the raw parameters, and, in the training loop, straight on to Adam: with
// FUSED_ADAM the 59 gradients of a splat never reach memory.
// With BATCH, the gradient is the mean over the views of a batch, each projected into a slot of its own and added up in order.
// project_backward: one thread owns the geometry of one splat. color_backward: one thread owns one coefficient of its colour.
#include "raster/smoothing.cuh"
#include "optim/local_frame_adam.cuh"

#ifdef FUSED_ADAM
constexpr bool FUSED = true;
#else
constexpr bool FUSED = false;
#endif
#ifdef BATCH
constexpr int NUM_SLOTS = BATCH;
#else
constexpr int NUM_SLOTS = 1;
#endif
#define GEOMETRY_ROWS ROW_SH0       // the rows of parameters before those of colours
#define UNUSABLE 3e38f              // in place of d red of a splat whose gradients are not finite: color_backward leaves it alone

// What project_backward does. render/project.py mirrors this layout.
struct UpdateOptions {
    int antialias;                  // 0 or 1
    int dense;                      // 1: splats that this view does not see get a zero gradient too
    int absgrad;                    // 1: statistics are of the sums of |d mean2d| (AbsGS, Ye et al. 2024)
    float opacity_reg, scale_reg;   // weights of the mean opacity and the mean scale in the loss
};

// Where gradients go: into parameters by Adam, or to memory.
struct Target {
    float* __restrict__ params;     // [rows, capacity]
    float* __restrict__ moments1;   // [rows, capacity]; with FUSED_ADAM
    float* __restrict__ moments2;   // [rows, capacity]; with FUSED_ADAM
    float* __restrict__ d_params;   // [rows, capacity]; without
    size_t stride;                  // capacity
};

// All gradients of one splat; zero where it is not seen.
struct SplatGradient {
    GeometryGradient geometry;
    float3 direction;               // from the camera's centre to the splat
    float3 color;                   // dL/d colour in that direction
};

__device__ __forceinline__ SplatGradient splat_backward(
    const SplatSums& sums, Gaussian g, float4 rgb, const Camera& camera, int antialias, int degree,
    const float* __restrict__ params, const float* __restrict__ filters, size_t stride, int i)
{
    SplatGradient d;
    Smoothing smoothing = {};
    if (filters) smoothing = smooth(g, filters[i]);
    d.geometry = geometry_backward(g, camera, sums, antialias);
    if (filters) smooth_backward(smoothing, sums.g, d.geometry);
    d.color = unclamped(sums, rgb);
    const float3 ray = sub(g.mean, make_vec(camera.position[0], camera.position[1], camera.position[2]));
    const float inv_length = rsqrtf(dot(ray, ray));
    d.direction = scale(inv_length, ray);
    d.geometry.mean = add(d.geometry.mean, ray_backward(params, stride, i, degree, ray, inv_length, d.color));
    return d;
}

// The sum of the gradients so far and those of a further view.
__device__ __forceinline__ GeometryGradient add_view(const GeometryGradient& sum, const GeometryGradient& d)
{
    GeometryGradient s = sum;
    s.mean = add(sum.mean, d.mean);
    s.log_scale = add(sum.log_scale, d.log_scale);
    s.quat.x += d.quat.x; s.quat.y += d.quat.y; s.quat.z += d.quat.z; s.quat.w += d.quat.w;
    s.logit_opacity += d.logit_opacity;
    return s;
}

__device__ __forceinline__ GeometryGradient scaled(float factor, const GeometryGradient& d)
{
    GeometryGradient s = d;
    s.mean = scale(factor, d.mean);
    s.log_scale = scale(factor, d.log_scale);
    s.quat.x *= factor; s.quat.y *= factor; s.quat.z *= factor; s.quat.w *= factor;
    s.logit_opacity *= factor;
    return s;
}

// Whether the losses of all views are numbers. Where one is not, nothing is updated.
__device__ __forceinline__ bool losses_are_finite(const IterState& state, const BatchView* __restrict__ views /* [BATCH] */)
{
#ifdef BATCH
    bool finite = true;
    for (int b = 0; b < NUM_SLOTS; ++b) finite = finite && is_finite(views[b].loss);
    return finite;
#else
    return loss_is_finite(state);
#endif
}

// Whether a view of the batch sees splat i.
__device__ __forceinline__ bool seen(const float* __restrict__ depths /* [slots, stride] */, size_t stride, int i)
{
    for (int b = 0; b < NUM_SLOTS; ++b)
        if (depths[b * stride + i] > 0.0f) return true;
    return false;
}

// Whether a splat's gradients can be used; one that cannot is counted, and its splat stays as it is.
__device__ __forceinline__ bool usable(IterState* state /* [1] */, const float (&gradients)[GEOMETRY_ROWS], float3 d_color)
{
    float sum = fabsf(d_color.x) + fabsf(d_color.y) + fabsf(d_color.z);
#pragma unroll
    for (int k = 0; k < GEOMETRY_ROWS; ++k) sum += fabsf(gradients[k]);
    if (sum < 1e18f) return true;           // their squares fit in Adam's moments
    atomicAdd(&state->skipped_updates, 1u);
    return false;
}

__device__ __forceinline__ void step_geometry(
    const Target& target, int i, const Gaussian& raw, const float (&gradients)[GEOMETRY_ROWS], const IterState& state)
{
    float p[GEOMETRY_ROWS], m[GEOMETRY_ROWS], v[GEOMETRY_ROWS];
#pragma unroll
    for (int row = 0; row < GEOMETRY_ROWS; ++row) {     // all loads before the first store
        const size_t k = row * target.stride + i;
        p[row] = target.params[k]; m[row] = target.moments1[k]; v[row] = target.moments2[k];
    }
    const float3 off = mean_step(raw, make_vec(gradients[0], gradients[1], gradients[2]), m, v, state);
    p[0] -= off.x; p[1] -= off.y; p[2] -= off.z;
#pragma unroll
    for (int row = 0; row < GEOMETRY_ROWS; ++row) {
        const size_t k = row * target.stride + i;
        const int rate = row < ROW_QUAT ? LR_LOG_SCALES : row < ROW_OPACITY ? LR_QUATS : LR_OPACITIES;
        if (row >= ROW_LOG_SCALE) adam_update(p[row], m[row], v[row], gradients[row], state.lr[rate], state);
        target.params[k] = p[row]; target.moments1[k] = m[row]; target.moments2[k] = v[row];
    }
}

extern "C" __global__ void project_backward(
    const Camera* __restrict__ cameras,     // [num_views]
    IterState* state,                       // [1] skipped updates and steps are counted
    int capacity,
    UpdateOptions options,
    const BatchView* __restrict__ views,    // [slots]; with BATCH
    const float* __restrict__ depths,       // [slots, capacity] 0 where invisible
    const float4* __restrict__ colors,      // [slots, capacity] rgb; 0 where it was clamped
    const float* __restrict__ d_splats,     // [slots, capacity, SPLAT_SUMS] from blend_backward
    const float* __restrict__ d_means,      // [slots, 3, capacity] added to those of visible splats; may be null
    const float* __restrict__ filters,      // [1, capacity] see smoothing.cuh; may be null
    float* __restrict__ d_rays,             // [slots, 6, capacity] viewing direction and d rgb, for color_backward
    float* __restrict__ params,             // [rows, capacity]
    float* __restrict__ moments1,           // [rows, capacity]; with FUSED_ADAM
    float* __restrict__ moments2,           // [rows, capacity]; with FUSED_ADAM
    float* __restrict__ d_params,           // [rows, capacity]; without
    float* __restrict__ stats)              // [2, capacity] sum of |d mean2d| in half images, views that saw it; may be null
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (int)state->num_splats || state->overflowed) return;
    if (FUSED && !losses_are_finite(*state, views)) {
        if (i == 0) state->skipped_steps += NUM_SLOTS;
        return;
    }
    const size_t stride = capacity;
    if (!options.dense && !seen(depths, stride, i)) return;

    const Gaussian raw = load_gaussian(params, stride, i);
    GeometryGradient e = {};
    float3 d_color = make_vec(0.0f, 0.0f, 0.0f);            // magnitudes
    float moved = 0.0f, times_seen = 0.0f;
    for (int b = 0; b < NUM_SLOTS; ++b) {
        const size_t slot = b * stride + i;
        SplatGradient d = {};
        if (depths[slot] > 0.0f) {
#ifdef BATCH
            const Camera& camera = views[b].camera;
#else
            const Camera& camera = cameras[state->view];
#endif
            const SplatSums sums = load_sums(d_splats, slot);
            d = splat_backward(sums, raw, colors[slot], camera, options.antialias, state->sh_degree, params, filters, stride, i);
            const float* more = d_means + 3 * b * stride + i;
            if (d_means) d.geometry.mean = add(d.geometry.mean, make_vec(more[0], more[stride], more[2 * stride]));
            if (options.absgrad) { d.geometry.d_x = sums.abs_x; d.geometry.d_y = sums.abs_y; }
            const float d_x = 0.5f * camera.width * d.geometry.d_x, d_y = 0.5f * camera.height * d.geometry.d_y;
            moved += sqrtf(d_x * d_x + d_y * d_y);
            times_seen += 1.0f;
            if (NUM_SLOTS > 1) d.color = scale(1.0f / NUM_SLOTS, d.color);
            d_color = add(d_color, make_vec(fabsf(d.color.x), fabsf(d.color.y), fabsf(d.color.z)));
        }
        e = b == 0 ? d.geometry : add_view(e, d.geometry);
        float* ray = d_rays + 6 * b * stride + i;
        ray[0] = d.direction.x; ray[stride] = d.direction.y; ray[2 * stride] = d.direction.z;
        ray[3 * stride] = d.color.x; ray[4 * stride] = d.color.y; ray[5 * stride] = d.color.z;
    }
    if (NUM_SLOTS > 1) e = scaled(1.0f / NUM_SLOTS, e);
    const float per_splat = 1.0f / state->num_splats;
    e.logit_opacity += options.opacity_reg * per_splat * raw.opacity * (1.0f - raw.opacity);
    e.log_scale = add(e.log_scale, scale(options.scale_reg * per_splat / 3.0f, raw.scale));

    const float gradients[GEOMETRY_ROWS] = {e.mean.x, e.mean.y, e.mean.z, e.log_scale.x, e.log_scale.y, e.log_scale.z,
                                            e.quat.x, e.quat.y, e.quat.z, e.quat.w, e.logit_opacity};
    if (FUSED && !usable(state, gradients, d_color)) {
        d_rays[3 * stride + i] = UNUSABLE;
        return;
    }
    if (stats && times_seen > 0.0f) {
        stats[i] += moved;
        stats[stride + i] += times_seen;
    }
    const Target target = {params, moments1, moments2, d_params, stride};
    if (FUSED) step_geometry(target, i, raw, gradients, *state);
    else for (int row = 0; row < GEOMETRY_ROWS; ++row) d_params[row * stride + i] = gradients[row];
}

// The gradient of coefficient k of splat i.
__device__ __forceinline__ float3 coefficient_gradient(
    const float* __restrict__ depths /* [slots, stride] */, const float* __restrict__ d_rays /* [slots, 6, stride] */,
    size_t stride, int i, int k)
{
    float3 sum = make_vec(0.0f, 0.0f, 0.0f);
    for (int b = 0; b < NUM_SLOTS; ++b) {
        if (NUM_SLOTS > 1 && !(depths[b * stride + i] > 0.0f)) continue;
        const float* ray = d_rays + 6 * b * stride + i;
        const float3 direction = make_vec(ray[0], ray[stride], ray[2 * stride]);
        const float3 d_color = make_vec(ray[3 * stride], ray[4 * stride], ray[5 * stride]);
        const float3 g = scale(sh_basis(k, direction), d_color);
        sum = NUM_SLOTS == 1 ? g : add(sum, g);
    }
    return sum;
}

// Apart from project_backward, because a thread that updated all 16 coefficients would wait for each before it could load the next.
// Blocks of the same splats follow one another, so that their rays are read from memory once.
extern "C" __global__ void color_backward(
    const IterState* __restrict__ state,    // [1]
    int capacity,
    int num_coefficients,                   // that are stored: of the highest degree
    int dense,
    const BatchView* __restrict__ views,    // [slots]; with BATCH
    const float* __restrict__ depths,       // [slots, capacity] 0 where invisible
    const float* __restrict__ d_rays,       // [slots, 6, capacity] from project_backward
    float* __restrict__ params,             // [rows, capacity]
    float* __restrict__ moments1,           // [rows, capacity]; with FUSED_ADAM
    float* __restrict__ moments2,           // [rows, capacity]; with FUSED_ADAM
    float* __restrict__ d_params)           // [rows, capacity]; without FUSED_ADAM
{
    const int i = blockIdx.x / num_coefficients * blockDim.x + threadIdx.x, k = blockIdx.x % num_coefficients;
    const int degree = state->sh_degree;
    if (i >= (int)state->num_splats || state->overflowed || k >= (degree + 1) * (degree + 1)) return;
    const size_t stride = capacity;
    if (!dense && !seen(depths, stride, i)) return;
    if (FUSED && (!losses_are_finite(*state, views) || !is_finite(d_rays[3 * stride + i]))) return;

    const size_t first = (size_t)(ROW_SH0 + 3 * k) * stride + i, second = first + stride, third = second + stride;
    const float3 g = coefficient_gradient(depths, d_rays, stride, i, k);
    if (FUSED) {
        const float lr = state->lr[k == 0 ? LR_SH0 : LR_SHN];
        float p0 = params[first], p1 = params[second], p2 = params[third];      // all loads before the first store
        float m0 = moments1[first], m1 = moments1[second], m2 = moments1[third];
        float v0 = moments2[first], v1 = moments2[second], v2 = moments2[third];
        adam_update(p0, m0, v0, g.x, lr, *state); adam_update(p1, m1, v1, g.y, lr, *state); adam_update(p2, m2, v2, g.z, lr, *state);
        params[first] = p0; params[second] = p1; params[third] = p2;
        moments1[first] = m0; moments1[second] = m1; moments1[third] = m2;
        moments2[first] = v0; moments2[second] = v1; moments2[third] = v2;
    } else {
        d_params[first] = g.x; d_params[second] = g.y; d_params[third] = g.z;
    }
}
