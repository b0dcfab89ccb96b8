// Training of parameters that belong to one photograph (its pose, its exposure): sums of gradients, learning rates, Adam.
//
// Kernels write partial sums as rows in memory. One block adds the rows, so that their order, and with it every bit, is fixed.
#pragma once
#include "optim/adam.cuh"

#define SUM_THREADS 128             // maximum size of a block that sums; a power of two

// Sums K values per thread over the block. All threads get the sums.
template <int K>
__device__ __forceinline__ void block_sum(float* shared /* [K * SUM_THREADS] */, float (&values)[K])
{
    const int thread = threadIdx.x, num = blockDim.x;
    for (int k = 0; k < K; ++k) shared[k * num + thread] = values[k];
    for (int half = num / 2; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half)
            for (int k = 0; k < K; ++k) shared[k * num + thread] += shared[k * num + thread + half];
    }
    __syncthreads();
    for (int k = 0; k < K; ++k) values[k] = shared[k * num];
}

// Sums num_rows rows of K values.
template <int K>
__device__ __forceinline__ void sum_rows(
    float* shared /* [K * SUM_THREADS] */, const float* __restrict__ rows /* [num_rows, K] */, int num_rows, float (&sums)[K])
{
    for (int k = 0; k < K; ++k) sums[k] = 0.0f;
    for (int row = threadIdx.x; row < num_rows; row += blockDim.x)
        for (int k = 0; k < K; ++k) sums[k] += rows[row * K + k];
    block_sum<K>(shared, sums);
}

// Learning rate of this step: log-linear from lr to lr_final over max_steps.
__device__ __forceinline__ float decayed(float lr, float lr_final, const IterState& state, int max_steps)
{
    return log_linear(lr, lr_final, (float)state.step / (float)max_steps);
}

// The same, but constant in the first half of max_steps and log-linear in the second.
__device__ __forceinline__ float decayed_late(float lr, float lr_final, const IterState& state, int max_steps)
{
    return log_linear(lr, lr_final, fmaxf(2.0f * (float)state.step / (float)max_steps - 1.0f, 0.0f));
}

// The state with bias corrections for `num_steps` steps.
__device__ __forceinline__ IterState with_bias(const IterState& state, float num_steps)
{
    IterState own = state;
    set_bias(own, num_steps);
    return own;
}

// The state with bias corrections for a view's own steps: each view appears once in `num_views` steps.
__device__ __forceinline__ IterState with_bias_of_view(const IterState& state, int num_views)
{
    return with_bias(state, (float)((state.step - 1) / num_views + 1));
}

// Adam step of a row of K values, with the bias corrections of `state`. Nothing changes if a gradient is not finite.
template <int K>
__device__ __forceinline__ void step_row(
    float* row /* [3, K] values, moments */, const float (&gradients)[K], const float (&lr)[K], const IterState& state)
{
    float size = 0.0f;
    for (int k = 0; k < K; ++k) size += fabsf(gradients[k]);
    if (!(size < 1e18f)) return;
    for (int k = 0; k < K; ++k) adam_update(row[k], row[K + k], row[2 * K + k], gradients[k], lr[k], state);
}

// Adam step of the values of one view.
template <int K>
__device__ __forceinline__ void step_view(
    float* row /* [3, K] values, moments */, const float (&gradients)[K], const float (&lr)[K], const IterState& state, int num_views)
{
    step_row<K>(row, gradients, lr, with_bias_of_view(state, num_views));
}
