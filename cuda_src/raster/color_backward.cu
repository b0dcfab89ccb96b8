// From colour gradients of projected splats to gradients of their SH coefficients and, with FUSED_ADAM, directly to Adam's update.
//
//     dL/dsh[k] = sum over views of Y_k(direction) dL/dcolour          one view, or BATCH; dL/dcolour is already divided by BATCH
//
// This is not part of project_backward, because a thread that updates all 16 coefficients waits for each before it can load the next.
// One lane owns one coefficient of one splat, or COEFFICIENTS of them one after another. For the indices see project_backward.cu.
#include "lanes.cuh"
#include "raster/sh.cuh"
#include "raster/slots.cuh"
#include "raster/update.cuh"
#include "raster/visible.cuh"
#include "optim/splat_adam.cuh"

#ifndef COEFFICIENTS                // coefficients that one lane updates
#define COEFFICIENTS 1
#endif

// Gradient of the lane's coefficient k if m holds. depths, d_rays: the lane's own elements of the first slot.
__device__ __forceinline__ vfloat3 coefficient_gradient(
    const float* __restrict__ depths /* [slots, columns] */, const float* __restrict__ d_rays /* [slots, 6, columns] */,
    const SlotLayout& layout, int k, vbool m)
{
    const size_t columns = layout.columns;
    vfloat3 sum = make_vec(0.0f, 0.0f, 0.0f);
    for (int slot = 0; slot < NUM_SLOTS; ++slot) {
        vbool visible = m;
        if (NUM_SLOTS > 1) visible = seen_in(depths, layout, slot, m);
        if (!some(visible)) continue;
        const float* rays = d_rays + 6 * slot * columns;
        const vfloat3 direction = load_vec(rays, columns, visible), d_color = load_vec(rays + 3 * columns, columns, visible);
        const vfloat3 g = scale(sh_basis(k, direction), d_color);
        sum = NUM_SLOTS == 1 ? g : select(visible, add(sum, g), sum);
    }
    return sum;
}

// Adam updates a view-dependent coefficient only if a view of the batch shows the splat. With 10M splats, a fifth of them visible,
// that saves 2.1 of 3.4 ms, and held-out images are as good (docs/experiments/optimizer.md, "Adam on visible splats"). The constant
// colour is updated whenever the geometry is.
//
// Consecutive blocks handle the same splats, so that their rays come from the cache. If only visible splats are updated, most warps
// have nothing to do; if gradients are stored, a warp moves a sixth of the bytes. In both cases a larger COEFFICIENTS saves warps.
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
    const int degree = state->sh_degree, n = state->num_splats;
    if (first >= n || state->overflowed || begin >= (degree + 1) * (degree + 1)) return;
    if (FUSED && !losses_are_finite(*state, views)) return;
    const size_t stride = capacity;
    const vbool trained = trainable(*state, first);
    vbool on = trained;
    if (!is_updated(options.warps, depths + i, layout, on)) return;
    if (!options.dense || (FUSED && begin > 0)) on = seen(depths + i, layout, on);
    if (FUSED) on = on & (fabsf(load_own(d_rays + 3 * (size_t)layout.columns + i, on)) < UNUSABLE);
    const vbool stored = FUSED ? sectors_of(on) & trained : on;
    if (!some(stored)) return;

    const size_t moment_stride = stride - first_moment(*state);
    int k = begin;
    do {
        const size_t row = ROW_SH0 + 3 * k, plane = row * stride + i, moments = row * moment_stride + i - first_moment(*state);
        const vfloat3 g = coefficient_gradient(depths + i, d_rays + i, layout, k, on);
        if (FUSED) {
            const AdamPlanes planes = {params + plane, {moments1 + moments, moments2 + moments}, stride, moment_stride};
            step_color(planes, g, k, *state, first + lane_id(), on, stored);
        } else {
            store_vec(d_params + plane, stride, g, on);
        }
    } while (COEFFICIENTS > 1 && ++k < min(begin + COEFFICIENTS, (degree + 1) * (degree + 1)));
}
