// From colour gradients of projected splats to gradients of their view-dependent coefficients and, with FUSED_ADAM, directly to Adam's
// update. project_backward does the same for the constant colour, k = 0, whose new second moments Adam uses for all k.
//
//     dL/dsh[k] = sum over views of Y_k(direction) dL/dcolour          one view, or BATCH; dL/dcolour is already divided by BATCH
//
// This is not part of project_backward, because the gradients of all coefficients need too many registers there. One lane updates
// COEFFICIENTS coefficients of one splat. For the indices see project_backward.cu.
// Launched by splat_cli/render/project.py. The same in plain NumPy: tests/reference/project_backward.py.
#include "lanes.cuh"
#include "raster/sh.cuh"
#include "raster/slots.cuh"
#include "raster/update.cuh"
#include "optim/splat_adam.cuh"

#define COEFFICIENTS 8              // render/project.py knows the same number

// Gradients of coefficients BEGIN, BEGIN + 1, ... if m holds. depths: the lane's own element of the first slot.
template <int BEGIN>
__device__ __forceinline__ void coefficient_gradients(
    vfloat3 (&sums)[COEFFICIENTS], const float* __restrict__ depths /* [slots, columns] */, float* d_splats /* [slots, rows, SPLAT_SUMS] */,
    const float* __restrict__ sent, const SlotLayout& layout, int first, vbool m)
{
#pragma unroll
    for (int j = 0; j < COEFFICIENTS; ++j) sums[j] = make_vec(0.0f, 0.0f, 0.0f);
    for (int slot = 0; slot < NUM_SLOTS; ++slot) {
        const vbool visible = seen_in(depths, layout, slot, m);
        if (!some(visible)) continue;
        const SlotRows rows = rows_of(d_splats, sent, layout, slot, first);
        const SplatRay ray = load_ray(rows.base, rows.row, visible);
#pragma unroll
        for (int j = 0; j < COEFFICIENTS; ++j)
            sums[j] = select(visible, add(sums[j], scale(sh_basis(BEGIN + j, ray.direction), ray.d_color)), sums[j]);
    }
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
    float* __restrict__ d_splats,           // [slots, rows, SPLAT_SUMS] rays that project_backward has left
    const float* __restrict__ sent,         // as for project_backward
    float* __restrict__ params,             // [rows, capacity]
    const float* __restrict__ moments,      // [BASE_ROWS, capacity - num_without_moments] after project_backward; only with FUSED_ADAM
    float* __restrict__ d_params)           // [rows, capacity]; only without FUSED_ADAM
{
    const int num_parts = (num_coefficients - 1 + COEFFICIENTS - 1) / COEFFICIENTS;
    const int first_own = (blockIdx.x / num_parts * blockDim.y + threadIdx.y) * 32, begin = 1 + blockIdx.x % num_parts * COEFFICIENTS;
    const int first = splat_of(share, first_own), i = own(first_own);
    const int degree = state->sh_degree, num = min(COEFFICIENTS, (degree + 1) * (degree + 1) - begin);
    if (first >= (int)state->num_splats || state->overflowed || num <= 0) return;
    if (FUSED && !losses_are_finite(*state, views)) return;
    const vbool trained = trainable(*state, first);
    if (!is_updated(options.warps, depths + i, layout, trained)) return;
    const vbool on = FUSED || !options.dense ? seen(depths + i, layout, trained) : trained;
    if (!some(on)) return;

    vfloat3 gradients[COEFFICIENTS];
    if (begin == 1) coefficient_gradients<1>(gradients, depths + i, d_splats, sent, layout, first_own, on);
    else coefficient_gradients<1 + COEFFICIENTS>(gradients, depths + i, d_splats, sent, layout, first_own, on);
    const vbool sectors = sectors_of(on) & trained;
    const size_t stride = capacity, moment_stride = stride - num_without_moments(*state), t = i - num_without_moments(*state);
    vfloat3 second;
    if (FUSED) {
        const float* const words = moments + ROW_SH0 * moment_stride + t;
        second = make_vec(second_moment(load_own(words, on)), second_moment(load_own(words + moment_stride, on)),
                          second_moment(load_own(words + 2 * moment_stride, on)));
    }
#pragma unroll
    for (int j = 0; j < COEFFICIENTS; ++j) {
        if (j >= num) break;
        float* const coefficient = (FUSED ? params : d_params) + (ROW_SH0 + 3 * (begin + j)) * stride + i;
        if (FUSED) step_coefficient(coefficient, second, gradients[j], stride, *state, on, sectors);
        else store_vec(coefficient, stride, gradients[j], on);
    }
}
