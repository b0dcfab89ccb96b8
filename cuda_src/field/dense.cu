// Fully connected layer: forward pass and gradient of its inputs. The gradient of the weights is in dense_weights.cu.
//
//     y[o][s]   = f(W[I][o] + sum over i < I of W[i][o] x[i][s])         dense_forward
//     d_x[i][s] = sum over o < O of W[i][o] d_y[o][s]                    dense_backward_inputs; d_y: with respect to f's argument
//
// for rows s of the batch (samples), I inputs and O outputs; f: identity, ReLU or sigmoid.
//
// Layout. Values are in planes [values, stride], with the rows of one value side by side: lanes of a warp read neighbours.
// Weights W are [I + 1, O] in row-major order, the last row the bias. O is a multiple of 8; I of a first layer may be any number.
//
// Tiling. Both are a product of matrices, result[c][s] = sum over k of w[k][c] x[k][s]:
//
//              256 rows s of a block                Shared memory has w for the 64 results of the block, [K][PITCH], and a slab
//            +-----------------------+              of SLAB planes of x for the rows in work, which all warps load together and
//  64        | warp 0: results 0-7   |              replace slab by slab until the K planes are summed.
//  results c | warp 1: results 8-15  |
//  of a      | ...                   |              A lane has 8 results of LANE_ROWS rows (its number plus 0, 32, 64, ...) in
//  block     | warp 7: results 56-63 |              LANE_SUMS registers. For a plane k it reads LANE_ROWS values of x and 8 weights
//            +-----------------------+              (two float4, the same for all lanes) for LANE_SUMS multiply-adds.
//
// On the GPU LANE_ROWS is 8, and a warp works on all 256 rows at once; on the CPU it is 2, and a warp takes 64 rows at a time.
// Launched by splat_cli/field/network.py. The same in plain NumPy: tests/reference/network.py.
#include "common.cuh"
#include "lanes.cuh"

#define MAX_WIDTH 128
#define BLOCK_ROWS 256
#define BLOCK_RESULTS 64
#define WARPS 8
#define WARP_RESULTS 8
#define LANE_ROWS (LANE_SUMS / WARP_RESULTS)
#define SLAB (64 / LANE_ROWS)           // planes of x in shared memory: 8 KiB for any LANE_ROWS
#define PITCH (BLOCK_RESULTS + 4)       // row length of weights in shared memory: aligned for float4, few bank conflicts in stores

enum { NONE = 0, RELU = 1, SIGMOID = 2 };
#ifndef ACTIVATION
#define ACTIVATION 0                    // f of dense_forward
#endif

// sum[j][c] += sum over k of w[k][c] x[k][32 j + lane]: the lane's part of the product. All warps of the block call it, because
// they load slabs together; a warp that is not `active` has no results and only loads.
__device__ __forceinline__ void add_product(
    const float* __restrict__ x /* [num_planes, stride] */, size_t stride, int num_planes,
    const float* w /* [num_planes, PITCH] */, bool active, int num_rows, vfloat (&sum)[LANE_ROWS][WARP_RESULTS])
{
    __shared__ float slab[SLAB * LANE_ROWS * 32];               // [SLAB, LANE_ROWS, 32]
    for (int first = 0; first < num_planes; first += SLAB) {
        __syncthreads();
#pragma unroll
        for (int j = 0; j < SLAB * LANE_ROWS / WARPS; ++j) {    // 32 rows per load; past the last plane, loads that plane again, unused
            const int v = j * WARPS + threadIdx.y, plane = min(first + v / LANE_ROWS, num_planes - 1), row = v % LANE_ROWS * 32;
            store_row(slab + 32 * v, load_row(x + plane * stride + row, row + lane_id() < num_rows), vbool(true));
        }
        __syncthreads();
        if (!active) continue;
#pragma unroll 2
        for (int k = 0; k < min(SLAB, num_planes - first); ++k) {
            const float4* vectors = (const float4*)(w + (first + k) * PITCH);
            const float4 low = vectors[0], high = vectors[1];
            const float weights[WARP_RESULTS] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
            for (int j = 0; j < LANE_ROWS; ++j) {
                const vfloat value = load_row(slab + 32 * (k * LANE_ROWS + j), vbool(true));
#pragma unroll
                for (int c = 0; c < WARP_RESULTS; ++c) sum[j][c] += value * weights[c];
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

// Grid (rows / BLOCK_ROWS, outputs / BLOCK_RESULTS), block (32, WARPS).
extern "C" __global__ void __launch_bounds__(256, 2) dense_forward(
    const float* __restrict__ x,            // [num_inputs, stride]
    int stride,
    const unsigned* __restrict__ num_rows,  // [1]
    const float* __restrict__ weights,      // [num_inputs + 1, num_outputs]
    int num_inputs, int num_outputs,
    float* __restrict__ y)                  // [num_outputs, stride]
{
    __shared__ float4 aligned[(MAX_WIDTH + 1) * PITCH / 4];
    float* const w = (float*)aligned;       // [num_inputs + 1, PITCH]: w[i][c] = W[i][first + c]
    const int n = *num_rows, begin = blockIdx.x * BLOCK_ROWS, first = blockIdx.y * BLOCK_RESULTS;
    if (begin >= n) return;
    const int num_results = min(BLOCK_RESULTS, num_outputs - first);
#pragma unroll 8
    BLOCK_FOR(k, (num_inputs + 1) * BLOCK_RESULTS) {
        const int i = k / BLOCK_RESULTS, c = k % BLOCK_RESULTS;
        if (c < num_results) w[i * PITCH + c] = weights[(size_t)i * num_outputs + first + c];
    }
    __syncthreads();
    const int own = threadIdx.y * WARP_RESULTS;             // the warp's first result
    for (int row = begin; row < min(begin + BLOCK_ROWS, n); row += 32 * LANE_ROWS) {
        vfloat sum[LANE_ROWS][WARP_RESULTS];
#pragma unroll
        for (int k = 0; k < LANE_SUMS; ++k)                 // begins with the bias
            sum[k / WARP_RESULTS][k % WARP_RESULTS] = w[num_inputs * PITCH + own + k % WARP_RESULTS];
        add_product(x + row, stride, num_inputs, w + own, own < num_results, n - row, sum);
        if (own >= num_results) continue;                   // either all 8 results exist or none does: O is a multiple of 8
#pragma unroll
        for (int c = 0; c < WARP_RESULTS; ++c) {
            float* plane = y + (size_t)(first + own + c) * stride + row;
#pragma unroll
            for (int j = 0; j < LANE_ROWS; ++j) store_row(plane + 32 * j, activate(sum[j][c]), row + 32 * j + lane_id() < n);
        }
    }
}

// Grid (rows / BLOCK_ROWS, inputs / BLOCK_RESULTS), block (32, WARPS).
extern "C" __global__ void __launch_bounds__(256, 2) dense_backward_inputs(
    const float* __restrict__ d_y,          // [num_outputs, stride] before the activation
    int stride,
    const unsigned* __restrict__ num_rows,  // [1]
    const float* __restrict__ weights,      // [num_inputs + 1, num_outputs]
    int num_inputs, int num_outputs,
    const float* __restrict__ x,            // [num_inputs, stride] output of the ReLU before this layer; null: no ReLU
    float* __restrict__ d_x)                // [num_inputs, stride] before that ReLU
{
    __shared__ float4 aligned[MAX_WIDTH * PITCH / 4];
    float* const w = (float*)aligned;       // [num_outputs, PITCH], transposed: w[o][c] = W[first + c][o]
    const int n = *num_rows, begin = blockIdx.x * BLOCK_ROWS, first = blockIdx.y * BLOCK_RESULTS;
    if (begin >= n) return;
    const int num_results = min(BLOCK_RESULTS, num_inputs - first);
#pragma unroll 8
    BLOCK_FOR(k, num_results * num_outputs) {
        const int c = k / num_outputs, o = k % num_outputs;
        w[o * PITCH + c] = weights[(size_t)first * num_outputs + k];
    }
    __syncthreads();
    const int own = threadIdx.y * WARP_RESULTS;             // the warp's first result
    for (int row = begin; row < min(begin + BLOCK_ROWS, n); row += 32 * LANE_ROWS) {
        vfloat sum[LANE_ROWS][WARP_RESULTS];
#pragma unroll
        for (int k = 0; k < LANE_SUMS; ++k) sum[k / WARP_RESULTS][k % WARP_RESULTS] = 0.0f;
        add_product(d_y + row, stride, num_outputs, w + own, own < num_results, n - row, sum);
        if (own >= num_results) continue;
#pragma unroll
        for (int c = 0; c < WARP_RESULTS; ++c) {
            if (own + c >= num_results) break;              // a first layer may have any number of inputs
            const size_t plane = (size_t)(first + own + c) * stride + row;
#pragma unroll
            for (int j = 0; j < LANE_ROWS; ++j) {
                const vbool used = row + 32 * j + lane_id() < n;
                vfloat d = sum[j][c];
                if (x) d = select(load_row(x + plane + 32 * j, used) > 0.0f, d, vfloat(0.0f));
                store_row(d_x + plane + 32 * j, d, used);
            }
        }
    }
}
