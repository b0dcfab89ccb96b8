// Adam over all parameters from stored gradients. One thread owns one value of the planes. The exact, dense form; the training
// loop fuses the same update with project_backward.
#include "adam.cuh"

__device__ __forceinline__ float lr_of_row(const Step& state, int row)
{
    const int group = row < ROW_LOG_SCALE ? 0 : row < ROW_QUAT ? 1 : row < ROW_OPACITY ? 2 : row < ROW_SH0 ? 3 : row < ROW_SHN ? 4 : 5;
    return state.lr[group];
}

extern "C" __global__ void adam(
    const Step* __restrict__ state,         // [1]
    int capacity,
    float* __restrict__ params,             // [rows, capacity]
    float* __restrict__ moments1,           // [rows, capacity]
    float* __restrict__ moments2,           // [rows, capacity]
    const float* __restrict__ d_params)     // [rows, capacity]
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= state->num_splats || state->halted) return;
    const size_t k = (size_t)blockIdx.y * capacity + i;
    adam_update(params[k], moments1[k], moments2[k], d_params[k], lr_of_row(*state, blockIdx.y), *state);
}
