// Fully connected layers over planes: a value of all rows (samples) lies in one plane, so that lanes read neighbours.
// forward and backward_inputs: a block owns 256 rows and up to 64 values of the result, a warp 8 of these values, a lane
// LANE_ROWS rows at a time; the weights lie in shared memory. backward_weights: a block owns 64 x 64 weights and some of
// the rows, a warp 8 inputs of these, a lane 2 outputs. All sums stay in registers, as many as there are of them.
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
#define SUM_INPUTS (LANE_SUMS < 32 ? 4 : 8)     // of backward_weights, whose sums are in registers at once
#define SUM_ROWS 512                // rows of a block of backward_weights, and how many of them it has in shared memory
#define TILE_ROWS 64

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

// sum[input][k] += over the rows of a tile: x [SUM_INPUTS, TILE_PITCH] times the lane's two outputs d_y [TILE_ROWS, D_PITCH].
#define TILE_PITCH (TILE_ROWS + 4)  // float4 aligned
#define D_PITCH (SLICE + 1)         // no bank conflicts, neither along rows nor along outputs
__device__ __forceinline__ void add_tile(
    const float* x, const float* d_y, int num_vectors, vfloat (&sum)[SUM_INPUTS][2])
{
    vfloat own[SUM_INPUTS][2];
#pragma unroll
    for (int k = 0; k < 2 * SUM_INPUTS; ++k) own[k / 2][k % 2] = sum[k / 2][k % 2];
    for (int row = 0; row < TILE_ROWS; row += 4) {
        vfloat d[4][2];
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            d[r][0] = load_row(d_y + (row + r) * D_PITCH, vbool(true));
            d[r][1] = num_vectors > 1 ? load_row(d_y + (row + r) * D_PITCH + 32, vbool(true)) : vfloat(0.0f);
        }
#pragma unroll
        for (int i = 0; i < SUM_INPUTS; ++i) {
            const float4 a = *(const float4*)(x + i * TILE_PITCH + row);
            const float all[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                own[i][0] += all[r] * d[r][0];
                own[i][1] += all[r] * d[r][1];
            }
        }
    }
#pragma unroll
    for (int k = 0; k < 2 * SUM_INPUTS; ++k) sum[k / 2][k % 2] = own[k / 2][k % 2];
}

extern "C" __global__ void __launch_bounds__(256, 2) dense_backward_weights(
    const float* __restrict__ x,            // [num_inputs, stride]
    const float* __restrict__ d_y,          // [num_outputs, stride]
    int stride,
    const unsigned* __restrict__ num_rows,  // [1]
    int num_inputs, int num_outputs,
    float* __restrict__ d_weights)          // [num_inputs + 1, num_outputs] gradients are added
{
    __shared__ float4 aligned[SLICE * TILE_PITCH / 4];
    __shared__ float d_tile[TILE_ROWS * D_PITCH];
    float* const x_tile = (float*)aligned;
    const int begin = blockIdx.x * SUM_ROWS, end = min(begin + SUM_ROWS, (int)*num_rows);
    if (begin >= end) return;
    const int across = (num_outputs + SLICE - 1) / SLICE, warp = threadIdx.y;
    const int first_input = blockIdx.y / across * SLICE, first_output = blockIdx.y % across * SLICE;
    const int num_vectors = num_outputs - first_output > 32 ? 2 : 1;
    vfloat sum[WARP_VALUES / SUM_INPUTS][SUM_INPUTS][2], bias[2] = {0.0f, 0.0f};
#pragma unroll
    for (int k = 0; k < 2 * WARP_VALUES; ++k) sum[k / (2 * SUM_INPUTS)][k / 2 % SUM_INPUTS][k % 2] = 0.0f;
    for (int row = begin; row < end; row += TILE_ROWS) {
        __syncthreads();
#pragma unroll 8
        BLOCK_FOR(k, SLICE * TILE_ROWS) {
            const int plane = k / TILE_ROWS, r = k % TILE_ROWS, input = first_input + plane, output = first_output + plane;
            x_tile[plane * TILE_PITCH + r] = row + r < end && input < num_inputs ? x[(size_t)input * stride + row + r] : 0.0f;
            d_tile[r * D_PITCH + plane] = row + r < end && output < num_outputs ? d_y[(size_t)output * stride + row + r] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < WARP_VALUES / SUM_INPUTS; ++k)
            add_tile(x_tile + (warp * WARP_VALUES + k * SUM_INPUTS) * TILE_PITCH, d_tile, num_vectors, sum[k]);
        for (int r = warp; r < TILE_ROWS; r += blockDim.y) {
            bias[0] += load_row(d_tile + r * D_PITCH, vbool(true));
            bias[1] += load_row(d_tile + r * D_PITCH + 32, vbool(true));
        }
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 2 * WARP_VALUES; ++k)
        store_row(x_tile + (warp * WARP_VALUES + k / 2) * TILE_PITCH + k % 2 * 32, sum[k / (2 * SUM_INPUTS)][k / 2 % SUM_INPUTS][k % 2], vbool(true));
    for (int k = 0; k < 2; ++k) store_row(d_tile + warp * SLICE + 32 * k, bias[k], vbool(true));
    __syncthreads();
    BLOCK_FOR(k, SLICE * SLICE) {
        const int i = k / SLICE, o = k % SLICE;
        if (first_input + i < num_inputs && first_output + o < num_outputs)
            atomicAdd(d_weights + (size_t)(first_input + i) * num_outputs + first_output + o, x_tile[i * TILE_PITCH + o]);
    }
    if (first_input > 0) return;
    BLOCK_FOR(o, min(SLICE, num_outputs - first_output)) {
        float total = 0.0f;
        for (int w = 0; w < (int)blockDim.y; ++w) total += d_tile[w * SLICE + o];
        atomicAdd(d_weights + (size_t)num_inputs * num_outputs + first_output + o, total);
    }
}
