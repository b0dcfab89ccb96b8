// From the gradients of projected splats to those of the raw parameters, and, in the training loop, straight on to Adam:
// with FUSED_ADAM the 59 gradients of a splat never reach memory. One thread owns one splat, blocks are independent.
#include "raster/geometry_backward.cuh"
#include "optim/local_frame_adam.cuh"
#ifdef SMOOTH_3D
#include "raster/smoothing.cuh"
#endif

// Where the gradients of a splat's geometry go: to memory, or into the parameters.
struct ParamWriter {
    size_t stride;
    int i;
    const Gaussian& raw;
    float *params, *moments1, *moments2, *d_params;

    template <int N>
    __device__ __forceinline__ void operator()(const IterState& state, const float (&gradients)[N]) const
    {
#ifdef FUSED_ADAM
        float p[N], m[N], v[N];
#pragma unroll
        for (int row = 0; row < N; ++row) {         // all loads before the first store
            const size_t k = row * stride + i;
            p[row] = params[k]; m[row] = moments1[k]; v[row] = moments2[k];
        }
        const float3 off = mean_step(raw, make_vec(gradients[0], gradients[1], gradients[2]), m, v, state);
        p[0] -= off.x; p[1] -= off.y; p[2] -= off.z;
#pragma unroll
        for (int row = 0; row < N; ++row) {
            const size_t k = row * stride + i;
            const int group = row < ROW_QUAT ? 1 : row < ROW_OPACITY ? 2 : 3;
            if (row >= ROW_LOG_SCALE) adam_update(p[row], m[row], v[row], gradients[row], state.lr[group], state);
            params[k] = p[row]; moments1[k] = m[row]; moments2[k] = v[row];
        }
#else
        for (int row = 0; row < N; ++row) d_params[row * stride + i] = gradients[row];
#endif
    }
};

// Whether a splat's gradients can be used; one that cannot is counted, and its splat stays as it is.
__device__ __forceinline__ bool usable(IterState* state /* [1] */, const float (&gradients)[11], float3 d_color)
{
    float sum = fabsf(d_color.x) + fabsf(d_color.y) + fabsf(d_color.z);
#pragma unroll
    for (int k = 0; k < 11; ++k) sum += fabsf(gradients[k]);
    if (sum < 1e18f) return true;           // their squares fit in Adam's moments
    atomicAdd(&state->skipped_updates, 1u);
    return false;
}

extern "C" __global__ void project_backward(
    const Camera* __restrict__ cameras,     // [num_views]
    IterState* state,                            // [1] skipped updates and steps are counted
    int capacity,
    int antialias,                          // 0 or 1
    int dense,                              // 1: splats that this view does not see get a zero gradient too
    float opacity_reg, float scale_reg,     // weights of the mean opacity and the mean scale in the loss
    const float* __restrict__ depths,       // [capacity] 0 where invisible
    const float4* __restrict__ colors,      // [capacity] rgb; 0 where it was clamped
    const float* __restrict__ d_splats,     // [capacity, 12] from blend_backward
    const float* __restrict__ d_means,      // [3, capacity] added to those of visible splats; with COLOR_MOVES
    float* __restrict__ d_rays,             // [6, capacity] viewing direction and d rgb, for color_backward
    float* __restrict__ params,             // [rows, capacity]
    float* __restrict__ moments1,           // [rows, capacity]; with FUSED_ADAM
    float* __restrict__ moments2,           // [rows, capacity]; with FUSED_ADAM
    float* __restrict__ d_params,           // [rows, capacity]; without FUSED_ADAM
    float* __restrict__ stats,              // [2, capacity] sum of |d mean2d| in half images, views that saw it; may be null
    const float* __restrict__ filters)      // [1, capacity] see smoothing.cuh; with SMOOTH_3D
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (int)state->num_splats || state->overflowed) return;
#ifdef FUSED_ADAM
    if (!loss_is_finite(*state)) {
        if (i == 0) state->skipped_steps += 1;
        return;
    }
#endif
    const bool visible = depths[i] > 0.0f;
    if (!visible && !dense) return;
    const Camera& camera = cameras[state->view];
    const size_t stride = capacity;
    const Gaussian raw = load_gaussian(params, stride, i);
    const ParamWriter sink = {stride, i, raw, params, moments1, moments2, d_params};
    Gaussian g = raw;
#ifdef SMOOTH_3D
    const Smoothing smoothing = smooth(g, filters[i]);
#endif

    GeometryGradient d = {};
    float3 d_color = make_vec(0.0f, 0.0f, 0.0f), direction = d_color;
    if (visible) {
        const float4* row = (const float4*)(d_splats + (size_t)i * 12);
        const float4 s0 = row[0], s1 = row[1], s2 = row[2], rgb = colors[i];
        const float moments[6] = {s0.x, s0.y, s0.z, s0.w, s1.x, s1.y};
        d = geometry_backward(g, camera, moments, antialias);
#ifdef SMOOTH_3D
        smooth_backward(smoothing, moments[0], d);
#endif
        d_color = make_vec(rgb.x > 0.0f ? s1.z : 0.0f, rgb.y > 0.0f ? s1.w : 0.0f, rgb.z > 0.0f ? s2.x : 0.0f);
        const float3 ray = sub(g.mean, make_vec(camera.position[0], camera.position[1], camera.position[2]));
        const float inv_length = rsqrtf(dot(ray, ray));
        direction = scale(inv_length, ray);
        d.mean = add(d.mean, ray_backward(params, stride, i, state->sh_degree, ray, inv_length, d_color));
#ifdef COLOR_MOVES
        d.mean = add(d.mean, make_vec(d_means[i], d_means[stride + i], d_means[2 * stride + i]));
#endif
#ifdef ABSGRAD
        d.d_x = s2.y; d.d_y = s2.z;
#endif
    }
    d_rays[i] = direction.x; d_rays[stride + i] = direction.y; d_rays[2 * stride + i] = direction.z;
    d_rays[3 * stride + i] = d_color.x; d_rays[4 * stride + i] = d_color.y; d_rays[5 * stride + i] = d_color.z;

    const float per_splat = 1.0f / state->num_splats;
    d.logit_opacity += opacity_reg * per_splat * raw.opacity * (1.0f - raw.opacity);
    d.log_scale = add(d.log_scale, scale(scale_reg * per_splat / 3.0f, raw.scale));
    const float gradients[11] = {d.mean.x, d.mean.y, d.mean.z, d.log_scale.x, d.log_scale.y, d.log_scale.z,
                                 d.quat.x, d.quat.y, d.quat.z, d.quat.w, d.logit_opacity};
#ifdef FUSED_ADAM
    if (!usable(state, gradients, d_color)) {
        d_rays[3 * stride + i] = 3e38f;     // color_backward leaves the splat alone as well
        return;
    }
#endif
    if (stats && visible) {
        const float d_x = 0.5f * camera.width * d.d_x, d_y = 0.5f * camera.height * d.d_y;
        stats[i] += sqrtf(d_x * d_x + d_y * d_y);
        stats[stride + i] += 1.0f;
    }
    sink(*state, gradients);
}

// One thread owns one coefficient (blockIdx.y) of one splat's colour. Apart from project_backward, because a thread that
// updated all 16 would wait for each before it could load the next.
extern "C" __global__ void color_backward(
    const IterState* __restrict__ state,         // [1]
    int capacity,
    int dense,
    const float* __restrict__ depths,       // [capacity] 0 where invisible
    const float* __restrict__ d_rays,       // [6, capacity] from project_backward
    float* __restrict__ params,             // [rows, capacity]
    float* __restrict__ moments1,           // [rows, capacity]; with FUSED_ADAM
    float* __restrict__ moments2,           // [rows, capacity]; with FUSED_ADAM
    float* __restrict__ d_params)           // [rows, capacity]; without FUSED_ADAM
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, k = blockIdx.y;
    const int degree = state->sh_degree;
    if (i >= (int)state->num_splats || state->overflowed || k >= (degree + 1) * (degree + 1)) return;
    if (!dense && !(depths[i] > 0.0f)) return;
    const size_t stride = capacity;
#ifdef FUSED_ADAM
    if (!loss_is_finite(*state) || !is_finite(d_rays[3 * stride + i])) return;
#endif
    const float3 direction = make_vec(d_rays[i], d_rays[stride + i], d_rays[2 * stride + i]);
    const float3 d_color = make_vec(d_rays[3 * stride + i], d_rays[4 * stride + i], d_rays[5 * stride + i]);
    const size_t first = (size_t)(ROW_SH0 + 3 * k) * stride + i, second = first + stride, third = second + stride;
    const float3 g = scale(sh_basis(k, direction), d_color);
#ifdef FUSED_ADAM
    const float lr = state->lr[k == 0 ? 4 : 5];
    float p0 = params[first], p1 = params[second], p2 = params[third];      // all loads before the first store
    float m0 = moments1[first], m1 = moments1[second], m2 = moments1[third];
    float v0 = moments2[first], v1 = moments2[second], v2 = moments2[third];
    adam_update(p0, m0, v0, g.x, lr, *state); adam_update(p1, m1, v1, g.y, lr, *state); adam_update(p2, m2, v2, g.z, lr, *state);
    params[first] = p0; params[second] = p1; params[third] = p2;
    moments1[first] = m0; moments1[second] = m1; moments1[third] = m2;
    moments2[first] = v0; moments2[second] = v1; moments2[third] = v2;
#else
    d_params[first] = g.x; d_params[second] = g.y; d_params[third] = g.z;
#endif
}
