// Adam step of the learned background colour (see background.cu). One block.
// Launched by splat_cli/joint/background.py. The same in plain NumPy: tests/reference/adam.py.
#include "optim/per_view.cuh"

extern "C" __global__ void __launch_bounds__(SUM_THREADS) step_background(
    const IterState* __restrict__ state,    // [1]
    const float* __restrict__ d_background, // [num_rows, 3] from background_backward
    int num_rows,
    float lr, float lr_final,
    int max_steps,
    float* __restrict__ trained,            // [3, 3] colour; first and second moments
    float* __restrict__ background)         // [3] of the Schedule: used from the next step on
{
    __shared__ float shared[3 * SUM_THREADS];
    if (state->overflowed || !loss_is_finite(*state)) return;
    float d[3], rates[3];
    sum_rows<3>(shared, d_background, num_rows, d);
    if (threadIdx.x > 0) return;
    for (int c = 0; c < 3; ++c) rates[c] = decayed(lr, lr_final, *state, max_steps);
    step_view<3>(trained, d, rates, *state, 1);
    for (int c = 0; c < 3; ++c) background[c] = trained[c] = fminf(fmaxf(trained[c], 0.0f), 1.0f);
}
