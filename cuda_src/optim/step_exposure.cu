// Adam step of one photograph's exposure (see exposure.cu). A plain kernel; those in exposure.cu are lane kernels.
// Launched by splat_cli/joint/appearance/exposure.py. The same in plain NumPy: tests/reference/adam.py.
#include "optim/per_view.cuh"

// One block owns the current view: sums the gradient, adds that of weight * |D|^2, and updates the matrix.
extern "C" __global__ void __launch_bounds__(SUM_THREADS) step_exposure(
    const IterState* __restrict__ state,    // [1]
    const float* __restrict__ d_exposure,   // [num_rows, 12] from apply_exposure_backward
    int num_rows, int num_views,
    float weight,
    float lr, float lr_final,
    int max_steps,
    float* __restrict__ exposures)          // [num_views, 3, 12]
{
    __shared__ float shared[12 * SUM_THREADS];
    if (state->overflowed || !loss_is_finite(*state)) return;
    float d[12], rates[12];
    sum_rows<12>(shared, d_exposure, num_rows, d);
    if (threadIdx.x > 0) return;
    float* row = exposures + (size_t)state->view * 36;
    for (int k = 0; k < 12; ++k) {
        d[k] += 2.0f * weight * row[k];
        rates[k] = decayed(lr, lr_final, *state, max_steps);
    }
    step_view<12>(row, d, rates, *state, num_views);
}
