// Fully connected layers over planes: a value of all rows (samples) lies in one plane, so that lanes read neighbours.
// forward and backward_inputs: a block owns 256 rows and up to 64 values of the result, a warp 8 of these values for 64 rows
// at a time, a lane 2 rows; the weights lie in shared memory. backward_weights: a warp owns 4 x 8 weights and some of the rows.
// Numbers of values are multiples of 8 but for a layer's inputs; weights are [inputs + 1, outputs], the last row the bias.
#include "common.cuh"
#include "lanes.cuh"

#define MAX_WIDTH 128
#define SLICE 64                    // values of the result that a block computes
#define PITCH (SLICE + 4)           // of a row of weights in shared memory, where bank conflicts are few and float4 aligned
#define GROUP 64                    // rows that a warp has at once, two a lane
#define GROUPS 4
#define WARP_VALUES 8
#define TILE_INPUTS 4               // backward_weights: a warp's weights, and the rows of a block
#define TILE_OUTPUTS 8
#define SUM_ROWS 2048

enum { NONE = 0, RELU = 1, SIGMOID = 2 };

// sum[row][k] of this warp's 8 values: planes x [num, stride] times weights [num][PITCH].
__device__ __forceinline__ void multiply(
    const float* __restrict__ x /* [num, stride] */, size_t stride, int num, const float* weights /* [num, PITCH] */, int row,
    vbool (&used)[2], vfloat (&sum)[2][WARP_VALUES])
{
#pragma unroll 4
    for (int i = 0; i < num; ++i) {
        const float* plane = x + i * stride + row;
        const vfloat a = load_row(plane, used[0]), b = load_row(plane + 32, used[1]);
        const float4* w = (const float4*)(weights + i * PITCH);
        const float4 low = w[0], high = w[1];
        const float all[WARP_VALUES] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
        for (int k = 0; k < WARP_VALUES; ++k) {
            sum[0][k] += a * all[k];
            sum[1][k] += b * all[k];
        }
    }
}

__device__ __forceinline__ vfloat activate(vfloat y, int activation)
{
    if (activation == RELU) return vmax(y, vfloat(0.0f));
    if (activation == SIGMOID) return vrcp(1.0f + vexp(-y));
    return y;
}

extern "C" __global__ void __launch_bounds__(256) dense_forward(
    const float* __restrict__ x,            // [num_inputs, stride]
    int stride,
    const unsigned* __restrict__ num_rows,  // [1]
    const float* __restrict__ weights,      // [num_inputs + 1, num_outputs]
    int num_inputs, int num_outputs,
    int activation,                         // 0 none, 1 ReLU, 2 sigmoid
    float* __restrict__ y)                  // [num_outputs, stride]
{
    __shared__ float4 aligned[(MAX_WIDTH + 1) * PITCH / 4];
    float* const shared = (float*)aligned;
    const int n = *num_rows, begin = blockIdx.x * GROUPS * GROUP, first = blockIdx.y * SLICE;
    if (begin >= n) return;
    const int slice = min(SLICE, num_outputs - first);
    BLOCK_FOR(k, (num_inputs + 1) * SLICE) {
        const int i = k / SLICE, o = k % SLICE;
        if (o < slice) shared[i * PITCH + o] = weights[(size_t)i * num_outputs + first + o];
    }
    __syncthreads();
    const int own = threadIdx.y * WARP_VALUES;
    if (own >= slice) return;
    for (int row = begin; row < min(begin + GROUPS * GROUP, n); row += GROUP) {
        vbool used[2] = {row + lane_id() < n, row + 32 + lane_id() < n};
        vfloat sum[2][WARP_VALUES];
#pragma unroll
        for (int k = 0; k < WARP_VALUES; ++k) sum[0][k] = sum[1][k] = shared[num_inputs * PITCH + own + k];
        multiply(x, stride, num_inputs, shared + own, row, used, sum);
#pragma unroll
        for (int k = 0; k < WARP_VALUES; ++k) {
            float* plane = y + (size_t)(first + own + k) * stride + row;
            store_row(plane, activate(sum[0][k], activation), used[0]);
            store_row(plane + 32, activate(sum[1][k], activation), used[1]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) dense_backward_inputs(
    const float* __restrict__ d_y,          // [num_outputs, stride] before the activation
    int stride,
    const unsigned* __restrict__ num_rows,  // [1]
    const float* __restrict__ weights,      // [num_inputs + 1, num_outputs]
    int num_inputs, int num_outputs,
    const float* __restrict__ x,            // [num_inputs, stride] what a ReLU gave: d_x is that before it; or null
    float* __restrict__ d_x)                // [num_inputs, stride]
{
    __shared__ float4 aligned[MAX_WIDTH * PITCH / 4];
    float* const shared = (float*)aligned;
    const int n = *num_rows, begin = blockIdx.x * GROUPS * GROUP, first = blockIdx.y * SLICE;
    if (begin >= n) return;
    const int slice = min(SLICE, num_inputs - first);
    BLOCK_FOR(k, slice * MAX_WIDTH) {
        const int i = k / MAX_WIDTH, o = k % MAX_WIDTH;
        if (o < num_outputs) shared[o * PITCH + i] = weights[(size_t)(first + i) * num_outputs + o];
    }
    __syncthreads();
    const int own = threadIdx.y * WARP_VALUES;
    if (own >= slice) return;
    for (int row = begin; row < min(begin + GROUPS * GROUP, n); row += GROUP) {
        vbool used[2] = {row + lane_id() < n, row + 32 + lane_id() < n};
        vfloat sum[2][WARP_VALUES];
#pragma unroll
        for (int k = 0; k < WARP_VALUES; ++k) sum[0][k] = sum[1][k] = 0.0f;
        multiply(d_y, stride, num_outputs, shared + own, row, used, sum);
#pragma unroll
        for (int k = 0; k < WARP_VALUES; ++k) {
            if (own + k >= slice) break;
            const size_t plane = (size_t)(first + own + k) * stride + row;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                vfloat d = sum[half][k];
                if (x) d = select(load_row(x + plane + 32 * half, used[half]) > 0.0f, d, vfloat(0.0f));
                store_row(d_x + plane + 32 * half, d, used[half]);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) dense_backward_weights(
    const float* __restrict__ x,            // [num_inputs, stride]
    const float* __restrict__ d_y,          // [num_outputs, stride]
    int stride,
    const unsigned* __restrict__ num_rows,  // [1]
    int num_inputs, int num_outputs,
    float* __restrict__ d_weights)          // [num_inputs + 1, num_outputs] gradients are added
{
    const int n = *num_rows, begin = blockIdx.x * SUM_ROWS;
    if (begin >= n) return;
    const int tiles_across = num_outputs / TILE_OUTPUTS, tile = blockIdx.y * blockDim.y + threadIdx.y;
    const int i = tile / tiles_across * TILE_INPUTS, o = tile % tiles_across * TILE_OUTPUTS;
    if (i > num_inputs) return;
    vfloat sum[TILE_INPUTS][TILE_OUTPUTS];
#pragma unroll
    for (int k = 0; k < TILE_INPUTS * TILE_OUTPUTS; ++k) sum[k / TILE_OUTPUTS][k % TILE_OUTPUTS] = 0.0f;
    for (int row = begin; row < min(begin + SUM_ROWS, n); row += 32) {
        const vbool used = row + lane_id() < n;
        vfloat d[TILE_OUTPUTS];
#pragma unroll
        for (int k = 0; k < TILE_OUTPUTS; ++k) d[k] = load_row(d_y + (size_t)(o + k) * stride + row, used);
#pragma unroll
        for (int j = 0; j < TILE_INPUTS; ++j) {
            const vfloat input = i + j < num_inputs ? load_row(x + (size_t)(i + j) * stride + row, used) : vfloat(1.0f);
#pragma unroll
            for (int k = 0; k < TILE_OUTPUTS; ++k) sum[j][k] += input * d[k];
        }
    }
#pragma unroll
    for (int j = 0; j < TILE_INPUTS; ++j)
        if (i + j <= num_inputs) warp_add(d_weights + (size_t)(i + j) * num_outputs + o, sum[j]);
}
