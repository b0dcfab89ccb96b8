// Splats without a recent gradient. One thread owns one splat.
// Launched by splat_cli/density/operations.py.
#include "common.cuh"

// Marks trained splats that were last seen before a step.
extern "C" __global__ void mark_unseen(
    const float* __restrict__ last_seen,        // [num - missing] step of the last gradient
    int missing,                                // number of splats at the beginning without a column
    int num_frozen, int num,                    // frozen splats come first
    float before,                               // step
    bool* __restrict__ mask)                    // [num]
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < num) mask[i] = i >= num_frozen && last_seen[i - missing] < before;
}

// numbers[index[k] - missing] = value. Indices may repeat.
extern "C" __global__ void set_numbers(
    const long long* __restrict__ index,        // [count]
    int count,
    float value,
    float* __restrict__ numbers,                // [num - missing]
    int missing)                                // number of splats at the beginning without a column
{
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < count) numbers[index[k] - missing] = value;
}
