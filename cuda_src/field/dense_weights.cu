// The gradient of a fully connected layer's weights (dense.cu has the layer). A block owns 64 x 64 of them and some of the
// rows, which it has in shared memory by turns; a warp owns 8 inputs, a lane 2 outputs, whose sums stay in registers to the end.
#include "common.cuh"
#include "lanes.cuh"

#define SLICE 64                    // inputs, and outputs, of a block
#define WARP_INPUTS 8
#define SUM_INPUTS (LANE_SUMS < 32 ? 4 : 8)     // whose sums are in registers at once
#define SUM_ROWS 512                // rows of a block, and how many of them it has in shared memory
#define TILE_ROWS 64
#define TILE_PITCH (TILE_ROWS + 4)  // of an input's rows: float4 aligned
#define D_PITCH (SLICE + 1)         // of a row's outputs: no bank conflicts, neither along rows nor along outputs

// sum[input][k] += over the rows of a tile: x [SUM_INPUTS, TILE_PITCH] times the lane's two outputs d_y [TILE_ROWS, D_PITCH].
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
    vfloat sum[WARP_INPUTS / SUM_INPUTS][SUM_INPUTS][2], bias[2] = {0.0f, 0.0f};
#pragma unroll
    for (int k = 0; k < 2 * WARP_INPUTS; ++k) sum[k / (2 * SUM_INPUTS)][k / 2 % SUM_INPUTS][k % 2] = 0.0f;
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
        for (int k = 0; k < WARP_INPUTS / SUM_INPUTS; ++k)
            add_tile(x_tile + (warp * WARP_INPUTS + k * SUM_INPUTS) * TILE_PITCH, d_tile, num_vectors, sum[k]);
        for (int r = warp; r < TILE_ROWS; r += blockDim.y) {
            bias[0] += load_row(d_tile + r * D_PITCH, vbool(true));
            bias[1] += load_row(d_tile + r * D_PITCH + 32, vbool(true));
        }
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 2 * WARP_INPUTS; ++k)
        store_row(x_tile + (warp * WARP_INPUTS + k / 2) * TILE_PITCH + k % 2 * 32, sum[k / (2 * SUM_INPUTS)][k / 2 % SUM_INPUTS][k % 2], vbool(true));
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
