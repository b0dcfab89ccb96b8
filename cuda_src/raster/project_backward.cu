// From gradients of projected splats to gradients of the raw geometry and the constant colour and, with FUSED_ADAM, directly to Adam's
// update; then gradients never reach memory. color_backward.cu does the same for view-dependent colours, from the rays that this kernel
// writes over the sums (SplatRay) and the second moments of the constant colour.
//
//     gradient = mean over views of (d_splats -> d mean, log scale, quat, logit opacity, sh[0])       one view, or BATCH views in order
//              + gradients of the regularizers
//
// One lane owns one splat. The splat has two indices:
//     first + lane_id()    among all splats
//     i                    column in the planes of this rank's splats and in the arrays of their projections
// They are equal unless several ranks train together (struct Share).
// Launched by splat_cli/render/project.py. The same in plain NumPy: tests/reference/project_backward.py.
#include "lanes.cuh"
#include "raster/slots.cuh"
#include "raster/splat_gradient.cuh"
#include "raster/update.cuh"
#include "optim/splat_adam.cuh"

#ifdef LENS
#define MIN_BLOCKS 3                // blocks of 128 threads that must fit on a multiprocessor
#elif defined(RADIAL_DISTORTION)
#define MIN_BLOCKS 3
#else
#define MIN_BLOCKS 4
#endif

// |dL/d mean2d| in image coordinates from -1 to 1. With absgrad, d_x and d_y of d are the sums of |dL/d mean2d| instead.
__device__ __forceinline__ vfloat screen_gradient(const GeometryGradient& d, const Camera& camera)
{
    const vfloat d_x = 0.5f * camera.width * d.d_x, d_y = 0.5f * camera.height * d.d_y;
    return sqrtf(d_x * d_x + d_y * d_y);
}

// Whether any pixel shows the splat, even if its colour was clamped.
__device__ __forceinline__ vbool has_color_gradient(const SplatSums& sums)
{
    return fabsf(sums.red) + fabsf(sums.green) + fabsf(sums.blue) > 0.0f;
}

// Adds the gradients of opacity_reg * (mean opacity) + scale_reg * (mean scale), with means over all trained splats.
__device__ __forceinline__ void add_regularizers(GeometryGradient& d, const Gaussian& raw, const UpdateOptions& options, int num_trained)
{
    const float per_splat = 1.0f / num_trained;
    d.logit_opacity += options.opacity_reg * per_splat * raw.opacity * (1.0f - raw.opacity);
    d.log_scale = add(d.log_scale, scale(options.scale_reg * per_splat / 3.0f, raw.scale));
}

// The splats in m with usable gradients. Counts the other splats, which are not updated.
__device__ __forceinline__ vbool usable(IterState* state /* [1] */, const vfloat (&gradients)[BASE_ROWS], vfloat abs_color, vbool m)
{
    vfloat sum = abs_color;
#pragma unroll
    for (int k = 0; k < BASE_ROWS; ++k) sum += fabsf(gradients[k]);
    const vbool fits = sum < 1e18f;         // their squares fit in Adam's moments
    add_count(&state->skipped_updates, m & !fits);
    return m & fits;
}

// Registers. With BATCH the kernel needs 150: then only 8 warps fit on a multiprocessor in blocks of 256 threads. Limited to 128 it runs
// 16 warps and is faster despite some spills. With RADIAL_DISTORTION, 12 warps need no spills. Each array is a separate parameter because
// pointers in a struct lose __restrict__; with the four planes in a struct, the kernel spills even without BATCH.
extern "C" __global__ void __launch_bounds__(128, MIN_BLOCKS) project_backward(
    const Camera* __restrict__ cameras,     // [num_views]
    IterState* state,                       // [1] counts skipped updates and steps
    int capacity,
    UpdateOptions options,
    Share share,                            // splats to update
    SlotLayout layout,                      // sizes of the arrays of a slot
    const BatchView* __restrict__ views,    // [slots]; only with BATCH
    float* __restrict__ depths,             // [slots, columns] 0 if invisible; set to 0 if gradients are unusable
    const float4* __restrict__ colors,      // [slots, columns] rgb; 0 if it was clamped
    float* __restrict__ d_splats,           // [slots, rows, SPLAT_SUMS] from blend_backward; then rays of visible splats
    const float* __restrict__ sent,         // [slots, sent_stride] index of the rows of d_splats (visible.cuh); only with SENT
    const float* __restrict__ d_means,      // [slots, 3, capacity] further gradients of visible splats; may be null
    const float* __restrict__ smooth_3d_sigmas, // [1, capacity] see projection.cuh; may be null
    float* __restrict__ params,             // [rows, capacity]
    float* __restrict__ moments,            // [BASE_ROWS, capacity - num_without_moments] see moments.cuh; only with FUSED_ADAM
    float* __restrict__ d_params,           // [rows, capacity]; only without FUSED_ADAM
    float* __restrict__ stats,              // [2, capacity - num_without_moments] |d mean2d| in half images, views that see the splat; may be null
    float* __restrict__ last_seen)          // [capacity - num_without_moments] step of the last update with a colour gradient; may be null
{
    const int first_own = (blockIdx.x * blockDim.y + threadIdx.y) * 32, first = splat_of(share, first_own), n = state->num_splats;
    const int i = own(first_own);
    if (first >= n || state->overflowed) return;
    if (FUSED && !losses_are_finite(*state, views)) {
        if (first == 0 && leader() && options.warps != UNSEEN_WARPS) state->skipped_steps += NUM_SLOTS;
        return;
    }
    const size_t stride = capacity, columns = layout.columns;
    vbool on = trainable(*state, first);
    if (!is_updated(options.warps, depths + i, layout, on)) return;
    if (!options.dense) on = seen(depths + i, layout, on);
    if (!some(on)) return;
    const int t = i - num_without_moments(*state);                 // column in moments and statistics
    const size_t moment_stride = stride - num_without_moments(*state);

    const Gaussian raw = load_gaussian(params + i, stride, on);
    GeometryGradient sum = {};
    vfloat3 color = make_vec(0.0f, 0.0f, 0.0f);             // sum of dL/d colour
    vfloat abs_color = 0.0f;                                // sum of their magnitudes: finite only if all of them are
    vfloat screen_gradients = 0.0f, num_seen = 0.0f;        // for stats: sum over views, number of views that see the splat
    for (int slot = 0; slot < NUM_SLOTS; ++slot) {
        const vbool visible = seen_in(depths + i, layout, slot, on);
        SplatGradient d = {};
        if (some(visible)) {
            const Camera& camera = camera_of(cameras, views, *state, slot);
            const SlotRows rows = rows_of(d_splats, sent, layout, slot, first_own);
            const SplatSums sums = load_sums(rows.base, rows.row, visible);
            if (last_seen) store_own(last_seen + t, vfloat((float)state->step), visible & has_color_gradient(sums));
            const float* own_sigmas = smooth_3d_sigmas ? smooth_3d_sigmas + i : nullptr;
            const vfloat4 rgb = load4_own(colors + slot * columns + i, visible);
            store_ray(rows.base, rows.row, ray_of(sums, rgb, raw.mean, camera), visible);      // now: later, it costs registers
            d = splat_backward(sums, raw, rgb, camera, options.antialias, state->sh_degree, params + i, own_sigmas, stride, visible);
            if (d_means) d.geometry.mean = add(d.geometry.mean, load_vec(d_means + 3 * slot * stride + i, stride, visible));
            if (options.absgrad) { d.geometry.d_x = sums.abs_x; d.geometry.d_y = sums.abs_y; }
            screen_gradients = select(visible, screen_gradients + screen_gradient(d.geometry, camera), screen_gradients);
            num_seen = select(visible, num_seen + 1.0f, num_seen);
            if (NUM_SLOTS > 1) d.color = scale(1.0f / NUM_SLOTS, d.color);
            d = masked(visible, d);
            color = add(color, d.color);
            abs_color += fabsf(d.color.x) + fabsf(d.color.y) + fabsf(d.color.z);
        }
        sum = slot == 0 ? d.geometry : add_view(sum, d.geometry);
    }
    if (NUM_SLOTS > 1) sum = scaled(1.0f / NUM_SLOTS, sum);
    add_regularizers(sum, raw, options, n - (int)state->num_frozen);

    const vfloat gradients[BASE_ROWS] = {sum.mean.x, sum.mean.y, sum.mean.z, sum.log_scale.x, sum.log_scale.y, sum.log_scale.z,
                                         sum.quat.x, sum.quat.y, sum.quat.z, sum.quat.w, sum.logit_opacity,
                                         SH_C0 * color.x, SH_C0 * color.y, SH_C0 * color.z};
    if (FUSED) {
        const vbool used = usable(state, gradients, abs_color, on);
        if (some(on & !used))           // hides them from color_backward
            for (int slot = 0; slot < NUM_SLOTS; ++slot) store_own(depths + slot * columns + i, vfloat(0.0f), on & !used);
        on = used;
        if (!some(on)) return;
    }
    if (stats) {
        const vbool counted = on & (num_seen > 0.0f);
        store_own(stats + t, load_own(stats + t, counted) + screen_gradients, counted);
        store_own(stats + moment_stride + t, load_own(stats + moment_stride + t, counted) + num_seen, counted);
    }
    const AdamPlanes planes = {params + i, moments + t, stride, moment_stride};
    const Noise noise = {options.noise_seed, options.noise_scale};
    if (FUSED) step_base(planes, raw, gradients, noise, *state, first + lane_id(), on);
    else for (int row = 0; row < BASE_ROWS; ++row) store_own(d_params + row * stride + i, gradients[row], on);
}
