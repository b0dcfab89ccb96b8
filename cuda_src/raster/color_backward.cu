// From colour gradients of projected splats to gradients of their view-dependent coefficients and, with FUSED_ADAM, directly to Adam's
// update. project_backward does the same for the constant colour, k = 0, whose new second moments Adam uses for all k.
//
//     dL/dsh[k] = sum over views of Y_k(direction) dL/dcolour          one view, or BATCH; dL/dcolour is already divided by BATCH
//
// This is not part of project_backward, because a thread that updates all 15 coefficients waits for each before it can load the next.
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
// that saves 2.1 of 3.4 ms, and held-out images are as good (docs/experiments/optimizer.md, "Adam on visible splats").
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
    const float* __restrict__ moments2,     // [BASE_ROWS, capacity - num_without_moments] after project_backward; only with FUSED_ADAM
    float* __restrict__ d_params)           // [rows, capacity]; only without FUSED_ADAM
{
    const int num_parts = (num_coefficients - 1 + COEFFICIENTS - 1) / COEFFICIENTS;
    const int first_own = (blockIdx.x / num_parts * blockDim.y + threadIdx.y) * 32, begin = 1 + blockIdx.x % num_parts * COEFFICIENTS;
    const int first = splat_of(share, first_own), i = own(first_own);
    const int degree = state->sh_degree, end = min(begin + COEFFICIENTS, (degree + 1) * (degree + 1));
    if (first >= (int)state->num_splats || state->overflowed || begin >= end) return;
    if (FUSED && !losses_are_finite(*state, views)) return;
    vbool on = trainable(*state, first);
    if (!is_updated(options.warps, depths + i, layout, on)) return;
    const vbool trained = on;
    if (FUSED || !options.dense) on = seen(depths + i, layout, on);
    if (FUSED) on = on & (fabsf(load_own(d_rays + 3 * (size_t)layout.columns + i, on)) < UNUSABLE);
    if (!some(on)) return;

    const vbool sectors = sectors_of(on) & trained;
    const size_t stride = capacity, moment_stride = stride - num_without_moments(*state), t = i - num_without_moments(*state);
    vfloat3 second;
    if (FUSED) second = load_vec(moments2 + ROW_SH0 * moment_stride + t, moment_stride, on);
    for (int k = begin; k < end; ++k) {
        const size_t row = ROW_SH0 + 3 * k;
        float* const coefficient = (FUSED ? params : d_params) + row * stride + i;
        const vfloat3 g = coefficient_gradient(depths + i, d_rays + i, layout, k, on);
        if (FUSED) step_coefficient(coefficient, second, g, stride, *state, on, sectors);
        else store_vec(coefficient, stride, g, on);
    }
}
