// Gradient of the weights of a fully connected layer (layer, layout and names: dense.cu).
//
//     d_W[i][o] += sum over rows s of x[i][s] d_y[o][s]          for i < I
//     d_W[I][o] += sum over rows s of d_y[o][s]                  the bias
//
// Tiling. A block owns 64 x 64 weights and BLOCK_ROWS rows of the batch. It adds its sums to d_W with one atomic per weight.
//
//                64 outputs o of a block          Shared memory holds a tile of 64 rows: x as [64 inputs, rows], d_y transposed as
//              +-------------------------+        [rows, 64 outputs]. The block loads tile after tile; sums stay in registers.
//   64         | warp 0: inputs 0-7      |
//   inputs i   | warp 1: inputs 8-15     |        A lane sums the warp's 8 inputs times 2 outputs (lane and lane + 32). For four
//   of a       | ...                     |        rows it reads 8 values of d_y, and per input one float4 of x, the same for all
//   block      | warp 7: inputs 56-63    |        lanes: 8 multiply-adds per read.
//              +-------------------------+
//
// The bias gradient is a column sum of d_y: each warp adds every 8th row. The order in which blocks add their sums is not fixed.
// Launched by splat_cli/field/network.py. The same in plain NumPy: tests/reference/network.py.
#include "common.cuh"
#include "lanes.cuh"

#define BLOCK_WEIGHTS 64            // inputs of a block, and outputs of a block
#define BLOCK_ROWS 512
#define TILE_ROWS 64
#define WARP_INPUTS 8
#define LANE_OUTPUTS 2
#define SUM_INPUTS (LANE_SUMS < 32 ? 4 : 8)     // inputs whose sums a loop keeps in registers; the CPU has fewer registers
#define X_PITCH (TILE_ROWS + 4)     // row length of x_tile: aligned for float4
#define D_PITCH (BLOCK_WEIGHTS + 1) // row length of d_tile: no bank conflicts along rows or along outputs

// sum[i][c] += sum over the rows of a tile of x[i][row] d_y[row][lane + 32 c]. num_vectors is 1 if the block has at most 32 outputs.
__device__ __forceinline__ void add_tile(
    const float* x /* [SUM_INPUTS, X_PITCH] */, const float* d_y /* [TILE_ROWS, D_PITCH] */, int num_vectors,
    vfloat (&sum)[SUM_INPUTS][LANE_OUTPUTS])
{
    vfloat total[SUM_INPUTS][LANE_OUTPUTS];     // a copy that host compilers keep in registers
#pragma unroll
    for (int k = 0; k < LANE_OUTPUTS * SUM_INPUTS; ++k) total[k / 2][k % 2] = sum[k / 2][k % 2];
    for (int row = 0; row < TILE_ROWS; row += 4) {
        vfloat d[4][LANE_OUTPUTS];
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            d[r][0] = load_row(d_y + (row + r) * D_PITCH, vbool(true));
            d[r][1] = num_vectors > 1 ? load_row(d_y + (row + r) * D_PITCH + 32, vbool(true)) : vfloat(0.0f);
        }
#pragma unroll
        for (int i = 0; i < SUM_INPUTS; ++i) {
            const float4 vector = *(const float4*)(x + i * X_PITCH + row);
            const float values[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                total[i][0] += values[r] * d[r][0];
                total[i][1] += values[r] * d[r][1];
            }
        }
    }
#pragma unroll
    for (int k = 0; k < LANE_OUTPUTS * SUM_INPUTS; ++k) sum[k / 2][k % 2] = total[k / 2][k % 2];
}

// Grid (rows / BLOCK_ROWS, pairs of 64 inputs and 64 outputs), block (32, 8).
extern "C" __global__ void __launch_bounds__(256, 2) dense_backward_weights(
    const float* __restrict__ x,            // [num_inputs, stride]
    const float* __restrict__ d_y,          // [num_outputs, stride] before the activation
    int stride,
    const unsigned* __restrict__ num_rows,  // [1]
    int num_inputs, int num_outputs,
    float* __restrict__ d_weights)          // [num_inputs + 1, num_outputs] accumulated
{
    __shared__ float4 aligned[BLOCK_WEIGHTS * X_PITCH / 4];
    __shared__ float d_tile[TILE_ROWS * D_PITCH];   // [row, output]
    float* const x_tile = (float*)aligned;          // [input, row]
    const int begin = blockIdx.x * BLOCK_ROWS, end = min(begin + BLOCK_ROWS, (int)*num_rows);
    if (begin >= end) return;
    const int across = (num_outputs + BLOCK_WEIGHTS - 1) / BLOCK_WEIGHTS, warp = threadIdx.y;
    const int first_input = blockIdx.y / across * BLOCK_WEIGHTS, first_output = blockIdx.y % across * BLOCK_WEIGHTS;
    const int num_vectors = num_outputs - first_output > 32 ? 2 : 1;
    vfloat sum[WARP_INPUTS / SUM_INPUTS][SUM_INPUTS][LANE_OUTPUTS], bias[LANE_OUTPUTS] = {0.0f, 0.0f};
#pragma unroll
    for (int k = 0; k < LANE_OUTPUTS * WARP_INPUTS; ++k) sum[k / (2 * SUM_INPUTS)][k / 2 % SUM_INPUTS][k % 2] = 0.0f;
    for (int row = begin; row < end; row += TILE_ROWS) {
        __syncthreads();
#pragma unroll 8
        BLOCK_FOR(k, BLOCK_WEIGHTS * TILE_ROWS) {           // zeros past the last row, input and output
            const int plane = k / TILE_ROWS, r = k % TILE_ROWS, input = first_input + plane, output = first_output + plane;
            x_tile[plane * X_PITCH + r] = row + r < end && input < num_inputs ? x[(size_t)input * stride + row + r] : 0.0f;
            d_tile[r * D_PITCH + plane] = row + r < end && output < num_outputs ? d_y[(size_t)output * stride + row + r] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < WARP_INPUTS / SUM_INPUTS; ++k)
            add_tile(x_tile + (warp * WARP_INPUTS + k * SUM_INPUTS) * X_PITCH, d_tile, num_vectors, sum[k]);
        for (int r = warp; r < TILE_ROWS; r += blockDim.y) {
            bias[0] += load_row(d_tile + r * D_PITCH, vbool(true));
            bias[1] += load_row(d_tile + r * D_PITCH + 32, vbool(true));
        }
    }
    __syncthreads();
    // From registers to the tiles, which are free now: then atomics run along rows of d_weights, and the warps' bias sums meet.
#pragma unroll
    for (int k = 0; k < LANE_OUTPUTS * WARP_INPUTS; ++k)
        store_row(x_tile + (warp * WARP_INPUTS + k / 2) * X_PITCH + k % 2 * 32,
                  sum[k / (2 * SUM_INPUTS)][k / 2 % SUM_INPUTS][k % 2], vbool(true));
    for (int k = 0; k < LANE_OUTPUTS; ++k) store_row(d_tile + warp * BLOCK_WEIGHTS + 32 * k, bias[k], vbool(true));
    __syncthreads();
    BLOCK_FOR(k, BLOCK_WEIGHTS * BLOCK_WEIGHTS) {
        const int i = k / BLOCK_WEIGHTS, o = k % BLOCK_WEIGHTS;
        if (first_input + i < num_inputs && first_output + o < num_outputs)
            atomicAdd(d_weights + (size_t)(first_input + i) * num_outputs + first_output + o, x_tile[i * X_PITCH + o]);
    }
    if (first_input > 0) return;                            // only the blocks of the first inputs add the bias
    BLOCK_FOR(o, min(BLOCK_WEIGHTS, num_outputs - first_output)) {
        float total = 0.0f;
        for (int w = 0; w < (int)blockDim.y; ++w) total += d_tile[w * BLOCK_WEIGHTS + o];
        atomicAdd(d_weights + (size_t)num_inputs * num_outputs + first_output + o, total);
    }
}
