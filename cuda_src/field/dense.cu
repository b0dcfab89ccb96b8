// Fully connected layers over planes: a value of all rows (samples) lies in one plane, so that lanes read neighbours. A block
// owns 256 rows and up to 64 values of the result, a warp 8 of these values, a lane LANE_ROWS rows at a time, whose sums stay in
// registers; the weights lie in shared memory. The gradient of the weights is in dense_weights.cu.
// Numbers of values are multiples of 8 but for a layer's inputs; weights are [inputs + 1, outputs], the last row the bias.
#include "common.cuh"
#include "lanes.cuh"

#define MAX_WIDTH 128
#define SLICE 64                    // values of the result that a block computes
#define PITCH (SLICE + 4)           // of a row of weights in shared memory, where bank conflicts are few and float4 aligned
#define BLOCK_ROWS 256
#define WARPS 8
#define WARP_VALUES 8
#define LANE_ROWS (LANE_SUMS / WARP_VALUES)
#define PLANES (64 / LANE_ROWS)     // that a block has in shared memory at once, for so many rows

enum { NONE = 0, RELU = 1, SIGMOID = 2 };
#ifndef ACTIVATION
#define ACTIVATION 0                // of dense_forward
#endif

// sum[k][value] of a lane's rows and this warp's 8 values: planes x [num, stride] times weights [num][PITCH]. All warps of the
// block call it, for they bring the planes to shared memory together; those that are not `busy` do nothing else.
__device__ __forceinline__ void multiply(
    const float* __restrict__ x /* [num, stride] */, size_t stride, int num, const float* weights /* [num, PITCH] */, bool busy,
    int num_rows, vfloat (&sum)[LANE_ROWS][WARP_VALUES])
{
    __shared__ float tile[PLANES * LANE_ROWS * 32];
    for (int first = 0; first < num; first += PLANES) {
        __syncthreads();
#pragma unroll
        for (int j = 0; j < PLANES * LANE_ROWS / WARPS; ++j) {
            const int v = j * WARPS + threadIdx.y, plane = min(first + v / LANE_ROWS, num - 1), row = v % LANE_ROWS * 32;
            store_row(tile + 32 * v, load_row(x + plane * stride + row, row + lane_id() < num_rows), vbool(true));
        }
        __syncthreads();
        if (!busy) continue;
#pragma unroll 2
        for (int i = 0; i < min(PLANES, num - first); ++i) {
            const float4* w = (const float4*)(weights + (first + i) * PITCH);
            const float4 low = w[0], high = w[1];
            const float all[WARP_VALUES] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
            for (int k = 0; k < LANE_ROWS; ++k) {
                const vfloat a = load_row(tile + 32 * (i * LANE_ROWS + k), vbool(true));
#pragma unroll
                for (int value = 0; value < WARP_VALUES; ++value) sum[k][value] += a * all[value];
            }
        }
    }
}

__device__ __forceinline__ vfloat activate(vfloat y)
{
    if (ACTIVATION == RELU) return vmax(y, vfloat(0.0f));
    if (ACTIVATION == SIGMOID) return vrcp(1.0f + vexp(-y));
    return y;
}

extern "C" __global__ void __launch_bounds__(256, 2) dense_forward(
    const float* __restrict__ x,            // [num_inputs, stride]
    int stride,
    const unsigned* __restrict__ num_rows,  // [1]
    const float* __restrict__ weights,      // [num_inputs + 1, num_outputs]
    int num_inputs, int num_outputs,
    float* __restrict__ y)                  // [num_outputs, stride]
{
    __shared__ float4 aligned[(MAX_WIDTH + 1) * PITCH / 4];
    float* const shared = (float*)aligned;
    const int n = *num_rows, begin = blockIdx.x * BLOCK_ROWS, first = blockIdx.y * SLICE;
    if (begin >= n) return;
    const int slice = min(SLICE, num_outputs - first);
#pragma unroll 8
    BLOCK_FOR(k, (num_inputs + 1) * SLICE) {
        const int i = k / SLICE, o = k % SLICE;
        if (o < slice) shared[i * PITCH + o] = weights[(size_t)i * num_outputs + first + o];
    }
    __syncthreads();
    const int own = threadIdx.y * WARP_VALUES;
    for (int row = begin; row < min(begin + BLOCK_ROWS, n); row += 32 * LANE_ROWS) {
        vfloat sum[LANE_ROWS][WARP_VALUES];
#pragma unroll
        for (int k = 0; k < LANE_SUMS; ++k)
            sum[k / WARP_VALUES][k % WARP_VALUES] = shared[num_inputs * PITCH + own + k % WARP_VALUES];
        multiply(x + row, stride, num_inputs, shared + own, own < slice, n - row, sum);
        if (own >= slice) continue;
#pragma unroll
        for (int value = 0; value < WARP_VALUES; ++value) {
            float* plane = y + (size_t)(first + own + value) * stride + row;
#pragma unroll
            for (int k = 0; k < LANE_ROWS; ++k) store_row(plane + 32 * k, activate(sum[k][value]), row + 32 * k + lane_id() < n);
        }
    }
}

extern "C" __global__ void __launch_bounds__(256, 2) dense_backward_inputs(
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
    const int n = *num_rows, begin = blockIdx.x * BLOCK_ROWS, first = blockIdx.y * SLICE;
    if (begin >= n) return;
    const int slice = min(SLICE, num_inputs - first);
#pragma unroll 8
    BLOCK_FOR(k, slice * num_outputs) {
        const int i = k / num_outputs, o = k % num_outputs;
        shared[o * PITCH + i] = weights[(size_t)first * num_outputs + k];
    }
    __syncthreads();
    const int own = threadIdx.y * WARP_VALUES;
    for (int row = begin; row < min(begin + BLOCK_ROWS, n); row += 32 * LANE_ROWS) {
        vfloat sum[LANE_ROWS][WARP_VALUES];
#pragma unroll
        for (int k = 0; k < LANE_SUMS; ++k) sum[k / WARP_VALUES][k % WARP_VALUES] = 0.0f;
        multiply(d_y + row, stride, num_outputs, shared + own, own < slice, n - row, sum);
        if (own >= slice) continue;
#pragma unroll
        for (int value = 0; value < WARP_VALUES; ++value) {
            if (own + value >= slice) break;
            const size_t plane = (size_t)(first + own + value) * stride + row;
#pragma unroll
            for (int k = 0; k < LANE_ROWS; ++k) {
                const vbool used = row + 32 * k + lane_id() < n;
                vfloat d = sum[k][value];
                if (x) d = select(load_row(x + plane + 32 * k, used) > 0.0f, d, vfloat(0.0f));
                store_row(d_x + plane + 32 * k, d, used);
            }
        }
    }
}
