// From colour gradients of projected splats to gradients of their SH coefficients and, with FUSED_ADAM, directly to Adam's update.
//
//     dL/dsh[k] = sum over views of Y_k(direction) dL/dcolour          one view, or BATCH; dL/dcolour is already divided by BATCH
//
// This is not part of project_backward, because a thread that updates all 16 coefficients waits for each before it can load the next.
// One lane updates COEFFICIENTS coefficients of one splat one after another. For the indices see project_backward.cu.
#include "lanes.cuh"
#include "raster/sh.cuh"
#include "raster/slots.cuh"
#include "raster/update.cuh"
#include "raster/visible.cuh"
#include "optim/splat_adam.cuh"

#define COEFFICIENTS 8              // render/project_backward.py knows the same number

// Gradient of the lane's coefficient k if m holds. depths, d_rays: the lane's own elements of the first slot.
__device__ __forceinline__ vfloat3 coefficient_gradient(
    const float* __restrict__ depths /* [slots, columns] */, const float* __restrict__ d_rays /* [slots, 6, columns] */,
    const SlotLayout& layout, int k, vbool m)
{
    const size_t columns = layout.columns;
    vfloat3 sum = make_vec(0.0f, 0.0f, 0.0f);
    for (int slot = 0; slot < NUM_SLOTS; ++slot) {
        const vbool visible = seen_in(depths, layout, slot, m);
        if (!some(visible)) continue;
        const float* rays = d_rays + 6 * slot * columns;
        const vfloat3 direction = load_vec(rays, columns, visible), d_color = load_vec(rays + 3 * columns, columns, visible);
        const vfloat3 g = scale(sh_basis(k, direction), d_color);
        sum = select(visible, add(sum, g), sum);
    }
    return sum;
}

// Adam updates a view-dependent coefficient only if a view of the batch shows the splat. With 10M splats, a fifth of them visible,
// that saves 2.1 of 3.4 ms, and held-out images are as good (docs/experiments/optimizer.md, "Adam on visible splats"). The constant
// colour is updated whenever the geometry is.
//
// Consecutive blocks handle the same splats, so that their rays come from the cache. With one coefficient per lane, most warps would have
// nothing to do, because most splats are invisible.
extern "C" __global__ void color_backward(
    const IterState* __restrict__ state,    // [1]
    int capacity,
    int num_coefficients,                   // stored coefficients: those of the highest degree
    UpdateOptions options,
    Share share,                            // splats to update
    SlotLayout layout,                      // sizes of the arrays of a slot
    const BatchView* __restrict__ views,    // [slots]; only with BATCH
    const float* __restrict__ depths,       // [slots, columns] 0 if invisible
    const float* __restrict__ d_rays,       // [slots, 6, columns] from project_backward
    float* __restrict__ params,             // [rows, capacity]
    float* __restrict__ moments1,           // [rows, capacity - first_moment] see optim/moments.cuh; only with FUSED_ADAM
    float* __restrict__ moments2,           // [rows, capacity - first_moment]; only with FUSED_ADAM and without BF16_MOMENTS
    float* __restrict__ d_params)           // [rows, capacity]; only without FUSED_ADAM
{
    const int num_parts = (num_coefficients + COEFFICIENTS - 1) / COEFFICIENTS;
    const int first_own = (blockIdx.x / num_parts * blockDim.y + threadIdx.y) * 32, begin = blockIdx.x % num_parts * COEFFICIENTS;
    const int first = splat_of(share, first_own), i = own(first_own);
    const int degree = state->sh_degree, end = min(begin + COEFFICIENTS, (degree + 1) * (degree + 1));
    if (first >= (int)state->num_splats || state->overflowed || begin >= end) return;
    if (FUSED && !losses_are_finite(*state, views)) return;
    const vbool trained = trainable(*state, first);
    if (!is_updated(options.warps, depths + i, layout, trained)) return;
    vbool on = trained;                                             // splats whose view-dependent coefficients change
    if (FUSED || !options.dense) on = seen(depths + i, layout, on);
    vbool on_first = options.dense && begin == 0 ? trained : on;    // splats whose coefficient `begin` changes
    if (FUSED) {
        const vbool used = fabsf(load_own(d_rays + 3 * (size_t)layout.columns + i, on_first)) < UNUSABLE;
        on = on & used;
        on_first = on_first & used;
    }
    const vbool stored = FUSED ? sectors_of(on) & trained : on, stored_first = FUSED ? sectors_of(on_first) & trained : on_first;
    if (!some(stored_first)) return;

    const size_t stride = capacity, moment_stride = stride - first_moment(*state);
    for (int k = begin; k < end; ++k) {
        const vbool moved = k == begin ? on_first : on;
        const size_t row = ROW_SH0 + 3 * k, plane = row * stride + i, moments = row * moment_stride + i - first_moment(*state);
        const vfloat3 g = coefficient_gradient(depths + i, d_rays + i, layout, k, moved);
        if (FUSED) {
            const AdamPlanes planes = {params + plane, {moments1 + moments, moments2 + moments}, stride, moment_stride};
            step_color(planes, g, k, *state, first + lane_id(), moved, k == begin ? stored_first : stored);
        } else {
            store_vec(d_params + plane, stride, g, moved);
        }
        if (!some(stored)) return;                                  // only the constant colour changes
    }
}
