// From the gradients of projected splats to those of the raw parameters, and, in the training loop, straight on to Adam: with
// FUSED_ADAM the 59 gradients of a splat never reach memory.
// With BATCH, the gradient is the mean over the views of a batch, each projected into a slot of its own and added up in order.
// project_backward: one lane owns the geometry of one splat. color_backward: one coefficient of its colour.
#include "lanes.cuh"
#include "raster/smoothing.cuh"
#include "optim/local_frame_adam.cuh"
#include "optim/moments.cuh"

#ifdef FUSED_ADAM
constexpr bool FUSED = true;
#else
constexpr bool FUSED = false;
#endif
#ifdef BF16_MOMENTS
constexpr bool PACKED = true;
#else
constexpr bool PACKED = false;
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

// Where the views of a batch are: those of a rank lie together. Strides from view to view. render/project.py mirrors this layout.
struct SlotLayout {
    int num_ranks, views_per_rank;
    int columns;                    // of d_splats and d_rays
    int depths, colors;             // strides, in elements
};
__device__ __forceinline__ size_t place_of(const SlotLayout& s, int slot) { return slot % s.num_ranks * s.views_per_rank + slot / s.num_ranks; }

// Where gradients go: into parameters by Adam, or to memory. The addresses are of the lane's own elements of the first planes.
struct Target {
    float* __restrict__ params;     // [rows, capacity]
    Moments<PACKED> moments;        // with FUSED_ADAM
    float* __restrict__ d_params;   // [rows, capacity]; without
    size_t stride;                  // capacity
};

// All gradients of one splat; zero where it is not seen.
struct SplatGradient {
    GeometryGradient geometry;
    vfloat3 direction;              // from the camera's centre to the splat
    vfloat3 color;                  // dL/d colour in that direction
};

// params and filters: the lane's own element of the first plane.
__device__ __forceinline__ SplatGradient splat_backward(
    const SplatSums& sums, Gaussian g, vfloat4 rgb, const Camera& camera, int antialias, int degree,
    const float* __restrict__ params, const float* __restrict__ filters, size_t stride, vbool m)
{
    SplatGradient d;
    Smoothing smoothing = {};
    if (filters) smoothing = smooth(g, load_own(filters, m));
    d.geometry = geometry_backward(g, camera, sums, antialias);
    if (filters) smooth_backward(smoothing, sums.g, d.geometry);
    d.color = unclamped(sums, rgb);
    const vfloat3 ray = sub(g.mean, make_vec(camera.position[0], camera.position[1], camera.position[2]));
    const vfloat inv_length = rsqrtf(dot(ray, ray));
    d.direction = scale(inv_length, ray);
    d.geometry.mean = add(d.geometry.mean, ray_backward(params, stride, m, degree, ray, inv_length, d.color));
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

// Splats first, first + 1, ... of the warp that may be changed: those that exist and are not frozen.
__device__ __forceinline__ vbool trainable(const IterState& state, int first)
{
    const vint splat = first + lane_id();
    return (splat < (int)state.num_splats) & (splat >= (int)state.num_frozen);
}

// Of the splats in m, those that slot b sees. depths: the lane's own element of the first slot.
__device__ __forceinline__ vbool seen_in(
    const float* __restrict__ depths /* [slots, layout.depths] */, const SlotLayout& layout, int b, vbool m)
{
    return m & (load_own(depths + place_of(layout, b) * layout.depths, m) > 0.0f);
}

// Those that a view of the batch sees.
__device__ __forceinline__ vbool seen(const float* __restrict__ depths /* [slots, layout.depths] */, const SlotLayout& layout, vbool m)
{
    vbool found = seen_in(depths, layout, 0, m);
    for (int b = 1; b < NUM_SLOTS; ++b) found = found | seen_in(depths, layout, b, m);
    return found;
}

// Zero where m does not hold.
__device__ __forceinline__ SplatGradient masked(vbool m, const SplatGradient& d)
{
    const vfloat3 zero = make_vec(0.0f, 0.0f, 0.0f);
    SplatGradient r = d;
    GeometryGradient& g = r.geometry;
    r.direction = select(m, d.direction, zero);
    r.color = select(m, d.color, zero);
    g.mean = select(m, g.mean, zero);
    g.log_scale = select(m, g.log_scale, zero);
    g.quat.x = select(m, g.quat.x, zero.x); g.quat.y = select(m, g.quat.y, zero.x);
    g.quat.z = select(m, g.quat.z, zero.x); g.quat.w = select(m, g.quat.w, zero.x);
    g.logit_opacity = select(m, g.logit_opacity, zero.x);
    return r;
}

// Of the splats in m, those whose gradients can be used; the others are counted, and stay as they are.
__device__ __forceinline__ vbool usable(IterState* state /* [1] */, const vfloat (&gradients)[GEOMETRY_ROWS], vfloat3 d_color, vbool m)
{
    vfloat sum = fabsf(d_color.x) + fabsf(d_color.y) + fabsf(d_color.z);
#pragma unroll
    for (int k = 0; k < GEOMETRY_ROWS; ++k) sum += fabsf(gradients[k]);
    const vbool fits = sum < 1e18f;         // then their squares fit in Adam's moments
    add_count(&state->skipped_updates, m & !fits);
    return m & fits;
}

__device__ __forceinline__ void step_geometry(
    const Target& target, const Gaussian& raw, const vfloat (&gradients)[GEOMETRY_ROWS], const IterState& state, vint splat, vbool on)
{
    vfloat p[GEOMETRY_ROWS], m[GEOMETRY_ROWS], v[GEOMETRY_ROWS];
#pragma unroll
    for (int row = 0; row < GEOMETRY_ROWS; ++row) {     // all loads before the first store
        const size_t k = row * target.stride;
        p[row] = load_own(target.params + k, on);
        load_moments(target.moments, k, m[row], v[row], on);
    }
    const vint seed = rounding_seed<PACKED>(state, splat);
    const vfloat3 off = mean_step(raw, make_vec(gradients[0], gradients[1], gradients[2]), m, v, state);
    p[0] -= off.x; p[1] -= off.y; p[2] -= off.z;
#pragma unroll
    for (int row = 0; row < GEOMETRY_ROWS; ++row) {
        const size_t k = row * target.stride;
        const int rate = row < ROW_QUAT ? LR_LOG_SCALES : row < ROW_OPACITY ? LR_QUATS : LR_OPACITIES;
        if (row >= ROW_LOG_SCALE) adam_update(p[row], m[row], v[row], gradients[row], state.lr[rate], state);
        store_own(target.params + k, p[row], on);
        store_moments(target.moments, k, m[row], v[row], seed, row, on);
    }
}

extern "C" __global__ void project_backward(
    const Camera* __restrict__ cameras,     // [num_views]
    IterState* state,                       // [1] skipped updates and steps are counted
    int capacity,
    UpdateOptions options,
    Share share,                            // splats to update
    SlotLayout layout,                      // of `slots` arrays for `columns` splats
    const BatchView* __restrict__ views,    // [slots]; with BATCH
    const float* __restrict__ depths,       // [slots, columns] 0 where invisible
    const float4* __restrict__ colors,      // [slots, columns] rgb; 0 where it was clamped
    const float* __restrict__ d_splats,     // [slots, columns, SPLAT_SUMS] from blend_backward
    const float* __restrict__ d_means,      // [slots, 3, capacity] added to those of visible splats; may be null
    const float* __restrict__ filters,      // [1, capacity] see smoothing.cuh; may be null
    float* __restrict__ d_rays,             // [slots, 6, columns] viewing direction and d rgb, for color_backward
    float* __restrict__ params,             // [rows, capacity]
    float* __restrict__ moments1,           // [rows, capacity] see moments.cuh; with FUSED_ADAM
    float* __restrict__ moments2,           // [rows, capacity]; with FUSED_ADAM, not used with BF16_MOMENTS
    float* __restrict__ d_params,           // [rows, capacity]; without
    float* __restrict__ stats)              // [2, capacity] sum of |d mean2d| in half images, views that saw it; may be null
{
    const int first_own = (blockIdx.x * blockDim.y + threadIdx.y) * 32, first = splat_of(share, first_own), n = state->num_splats;
    const int i = own(column_of(share, first_own)), j = own(first_own);
    if (first >= n || state->overflowed) return;
    if (FUSED && !losses_are_finite(*state, views)) {
        if (first == 0 && leader()) state->skipped_steps += NUM_SLOTS;
        return;
    }
    const size_t stride = capacity, columns = layout.columns;
    vbool on = trainable(*state, first);
    if (!options.dense) on = seen(depths + j, layout, on);
    if (!some(on)) return;

    const Gaussian raw = load_gaussian(params + i, stride, on);
    GeometryGradient e = {};
    vfloat3 d_color = make_vec(0.0f, 0.0f, 0.0f);           // magnitudes
    vfloat moved = 0.0f, times_seen = 0.0f;
    for (int b = 0; b < NUM_SLOTS; ++b) {
        const size_t place = place_of(layout, b);
        const vbool visible = seen_in(depths + j, layout, b, on);
        SplatGradient d = {};
        if (some(visible)) {
#ifdef BATCH
            const Camera& camera = views[b].camera;
#else
            const Camera& camera = cameras[state->view];
#endif
            const SplatSums sums = load_sums(d_splats + (place * columns + j) * SPLAT_SUMS, visible);
            const float* own_filters = filters ? filters + i : nullptr;
            d = splat_backward(sums, raw, load4_own(colors + place * layout.colors + j, visible), camera, options.antialias, state->sh_degree,
                               params + i, own_filters, stride, visible);
            if (d_means) d.geometry.mean = add(d.geometry.mean, load_vec(d_means + 3 * b * stride + i, stride, visible));
            if (options.absgrad) { d.geometry.d_x = sums.abs_x; d.geometry.d_y = sums.abs_y; }
            const vfloat d_x = 0.5f * camera.width * d.geometry.d_x, d_y = 0.5f * camera.height * d.geometry.d_y;
            moved = select(visible, moved + sqrtf(d_x * d_x + d_y * d_y), moved);
            times_seen = select(visible, times_seen + 1.0f, times_seen);
            if (NUM_SLOTS > 1) d.color = scale(1.0f / NUM_SLOTS, d.color);
            d = masked(visible, d);
            d_color = add(d_color, make_vec(fabsf(d.color.x), fabsf(d.color.y), fabsf(d.color.z)));
        }
        e = b == 0 ? d.geometry : add_view(e, d.geometry);
        float* rays = d_rays + 6 * b * columns + j;
        store_vec(rays, columns, d.direction, on);
        store_vec(rays + 3 * columns, columns, d.color, on);
    }
    if (NUM_SLOTS > 1) e = scaled(1.0f / NUM_SLOTS, e);
    const float per_splat = 1.0f / (n - (int)state->num_frozen);
    e.logit_opacity += options.opacity_reg * per_splat * raw.opacity * (1.0f - raw.opacity);
    e.log_scale = add(e.log_scale, scale(options.scale_reg * per_splat / 3.0f, raw.scale));

    const vfloat gradients[GEOMETRY_ROWS] = {e.mean.x, e.mean.y, e.mean.z, e.log_scale.x, e.log_scale.y, e.log_scale.z,
                                             e.quat.x, e.quat.y, e.quat.z, e.quat.w, e.logit_opacity};
    if (FUSED) {
        const vbool used = usable(state, gradients, d_color, on);
        store_own(d_rays + 3 * columns + j, vfloat(UNUSABLE), on & !used);
        on = used;
        if (!some(on)) return;
    }
    if (stats) {
        const vbool counted = on & (times_seen > 0.0f);
        store_own(stats + i, load_own(stats + i, counted) + moved, counted);
        store_own(stats + stride + i, load_own(stats + stride + i, counted) + times_seen, counted);
    }
    const Target target = {params + i, {moments1 + i, moments2 + i}, d_params, stride};
    if (FUSED) step_geometry(target, raw, gradients, *state, first + lane_id(), on);
    else for (int row = 0; row < GEOMETRY_ROWS; ++row) store_own(d_params + row * stride + i, gradients[row], on);
}

// Adam on coefficient k of each splat's colour. target: of its first channel.
__device__ __forceinline__ void step_color(const Target& target, vfloat3 g, int k, const IterState& state, vint splat, vbool on)
{
    const size_t stride = target.stride;
    const float lr = state.lr[k == 0 ? LR_SH0 : LR_SHN];
    vfloat3 p = load_vec(target.params, stride, on), m, v;      // all loads before the first store
    load_moments(target.moments, 0, m.x, v.x, on);
    load_moments(target.moments, stride, m.y, v.y, on);
    load_moments(target.moments, 2 * stride, m.z, v.z, on);
    adam_update(p.x, m.x, v.x, g.x, lr, state); adam_update(p.y, m.y, v.y, g.y, lr, state); adam_update(p.z, m.z, v.z, g.z, lr, state);
    store_vec(target.params, stride, p, on);
    const vint seed = rounding_seed<PACKED>(state, splat);
    const int row = ROW_SH0 + 3 * k;
    store_moments(target.moments, 0, m.x, v.x, seed, row, on);
    store_moments(target.moments, stride, m.y, v.y, seed, row + 1, on);
    store_moments(target.moments, 2 * stride, m.z, v.z, seed, row + 2, on);
}

// The gradient of a splat's coefficient k, where m holds. depths and d_rays: the lane's own elements of the first slot.
__device__ __forceinline__ vfloat3 coefficient_gradient(
    const float* __restrict__ depths /* [slots, layout.depths] */, const float* __restrict__ d_rays /* [slots, 6, columns] */,
    const SlotLayout& layout, int k, vbool m)
{
    const size_t columns = layout.columns;
    vfloat3 sum = make_vec(0.0f, 0.0f, 0.0f);
    for (int b = 0; b < NUM_SLOTS; ++b) {
        vbool visible = m;
        if (NUM_SLOTS > 1) visible = seen_in(depths, layout, b, m);
        if (!some(visible)) continue;
        const float* rays = d_rays + 6 * b * columns;
        const vfloat3 direction = load_vec(rays, columns, visible), d_color = load_vec(rays + 3 * columns, columns, visible);
        const vfloat3 g = scale(sh_basis(k, direction), d_color);
        sum = NUM_SLOTS == 1 ? g : select(visible, add(sum, g), sum);
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
    Share share,                            // splats to update
    SlotLayout layout,                      // of `slots` arrays for `columns` splats
    const BatchView* __restrict__ views,    // [slots]; with BATCH
    const float* __restrict__ depths,       // [slots, columns] 0 where invisible
    const float* __restrict__ d_rays,       // [slots, 6, columns] from project_backward
    float* __restrict__ params,             // [rows, capacity]
    float* __restrict__ moments1,           // [rows, capacity] see moments.cuh; with FUSED_ADAM
    float* __restrict__ moments2,           // [rows, capacity]; with FUSED_ADAM, not used with BF16_MOMENTS
    float* __restrict__ d_params)           // [rows, capacity]; without FUSED_ADAM
{
    const int first_own = (blockIdx.x / num_coefficients * blockDim.y + threadIdx.y) * 32, k = blockIdx.x % num_coefficients;
    const int first = splat_of(share, first_own), i = own(column_of(share, first_own)), j = own(first_own);
    const int degree = state->sh_degree, n = state->num_splats;
    if (first >= n || state->overflowed || k >= (degree + 1) * (degree + 1)) return;
    if (FUSED && !losses_are_finite(*state, views)) return;
    const size_t stride = capacity;
    vbool on = trainable(*state, first);
    if (!dense) on = seen(depths + j, layout, on);
    if (!some(on)) return;
    if (FUSED) {
        on = on & (fabsf(load_own(d_rays + 3 * (size_t)layout.columns + j, on)) < UNUSABLE);
        if (!some(on)) return;
    }

    const size_t plane = (size_t)(ROW_SH0 + 3 * k) * stride + i;
    const vfloat3 g = coefficient_gradient(depths + j, d_rays + j, layout, k, on);
    if (FUSED) {
        step_color({params + plane, {moments1 + plane, moments2 + plane}, d_params, stride}, g, k, *state, first + lane_id(), on);
    } else {
        store_vec(d_params + plane, stride, g, on);
    }
}
