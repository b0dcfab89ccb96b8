// Appearance embedding of a photograph: adds the same few inputs to every row of a network (Martin-Brualla et al. 2021, NeRF in the
// Wild, sec. 4.1). blockIdx.y is the index k in the embedding.
// Launched by splat_cli/field/coloring.py. The same in plain NumPy: tests/reference/color_field.py.
#include "common.cuh"
#include "lanes.cuh"

#define SUM_ROWS 1024                       // rows that one warp sums

// inputs[k][row] = embeddings[view][k]. One lane owns one row.
extern "C" __global__ void embed(
    const IterState* __restrict__ state,    // [1]
    const float* __restrict__ embeddings,   // [num_views, size]
    int size,
    int stride,
    const unsigned* __restrict__ num_rows,  // [1]
    float* __restrict__ inputs)             // [size, stride]
{
    const int n = *num_rows, row = (blockIdx.x * blockDim.y + threadIdx.y) * 32, k = blockIdx.y;
    if (row >= n) return;
    store_row(inputs + (size_t)k * stride + row, vfloat(embeddings[state->view * size + k]), row + lane_id() < n);
}

// d_embeddings[view][k] += sum over rows of d_inputs[k][row].
extern "C" __global__ void embedding_backward(
    const IterState* __restrict__ state,    // [1]
    const float* __restrict__ d_inputs,     // [size, stride]
    int size,
    int stride,
    const unsigned* __restrict__ num_rows,  // [1]
    float* __restrict__ d_embeddings)       // [num_views, size] accumulated for this view
{
    const int n = *num_rows, begin = (blockIdx.x * blockDim.y + threadIdx.y) * SUM_ROWS, k = blockIdx.y;
    if (begin >= n) return;
    vfloat sum = 0.0f;
    for (int row = begin; row < min(begin + SUM_ROWS, n); row += 32)
        sum += load_row(d_inputs + (size_t)k * stride + row, row + lane_id() < n);
    const float total = warp_sum(sum);
    if (leader()) atomicAdd(d_embeddings + state->view * size + k, total);
}
