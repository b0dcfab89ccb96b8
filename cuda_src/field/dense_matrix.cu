// The products of dense.cu and dense_weights.cu on tensor cores, with their arguments and layouts. Factors are rounded to tf32
// (11 bits of mantissa), sums are floats. From sm_80 on.
//
// A warp multiplies by mma.m16n8k8: C [16, 8] += A [16, 8] B [8, 8]. Lane 4 g + t holds (PTX ISA, "Matrix fragments for mma.m16n8k8"):
//     A  (g, t) (g+8, t) (g, t+4) (g+8, t+4)        B  (t, g) (t+4, g)        C  (g, 2t) (g, 2t+1) (g+8, 2t) (g+8, 2t+1)
// Which rows of the batch are the columns of B is free, so that a lane loads and stores float4: four products side by side, of which
// product j has row 4 n + j of 32 as its column n. `stride` is a multiple of 4.
#include "common.cuh"
#include "vectors.cuh"

#define MAX_WIDTH 128
#define WARPS 8
#define WARP_ROWS 32                // rows of the batch that a warp works on at once
#define RESULTS 64                  // results of a block: four A of 16 rows
#define TILES 4                     // of 16 results; and of 8 rows
#define PITCH (RESULTS + 8)         // of weights in shared memory: lanes of A read from all banks

enum { NONE = 0, RELU = 1, SIGMOID = 2 };
#ifndef ACTIVATION
#define ACTIVATION 0                // of matrix_forward
#endif

__device__ __forceinline__ unsigned tf32(float x)
{
    unsigned rounded = 0;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
#endif
    return rounded;
}

// c += a b, spread over the warp as above.
__device__ __forceinline__ void mma_tf32(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

// Four rows of a plane from `row` on; zeros from row `n` on, or if the plane is not `used`.
__device__ __forceinline__ void load_rows(const float* __restrict__ plane, int row, int n, bool used, float (&v)[4])
{
    if (used && row + 3 < n) {
        const float4 all = *(const float4*)(plane + row);
        v[0] = all.x; v[1] = all.y; v[2] = all.z; v[3] = all.w;
    } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) v[j] = used && row + j < n ? plane[row + j] : 0.0f;
    }
}

__device__ __forceinline__ void store_rows(float* __restrict__ plane, int row, int n, const float (&v)[4])
{
    if (row + 3 < n) {
        *(float4*)(plane + row) = make_float4(v[0], v[1], v[2], v[3]);
    } else {
#pragma unroll
        for (int j = 0; j < 4; ++j)
            if (row + j < n) plane[row + j] = v[j];
    }
}

// sum[m][j] += w^T x for results 16 m .. 16 m + 15 and the rows of product j. w is 0 from plane `num_planes` up to a multiple of 8.
__device__ __forceinline__ void add_product(
    const float* __restrict__ x /* [num_planes, stride] */, size_t stride, int num_planes, int row, int n,
    const float* w /* [num_planes, PITCH] */, int num_results, float (&sum)[TILES][TILES][4])
{
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    for (int k = 0; k < num_planes; k += 8) {
        float x0[4], x1[4];
        load_rows(x + (size_t)(k + t) * stride, row + 4 * g, n, k + t < num_planes, x0);
        load_rows(x + (size_t)(k + t + 4) * stride, row + 4 * g, n, k + t + 4 < num_planes, x1);
        unsigned b0[4], b1[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) { b0[j] = tf32(x0[j]); b1[j] = tf32(x1[j]); }
#pragma unroll
        for (int m = 0; m < TILES; ++m) {
            if (16 * m >= num_results) continue;
            const float* own = w + (k + t) * PITCH + 16 * m + g;
            const unsigned a[4] = {__float_as_uint(own[0]), __float_as_uint(own[8]), __float_as_uint(own[4 * PITCH]), __float_as_uint(own[4 * PITCH + 8])};
#pragma unroll
            for (int j = 0; j < TILES; ++j) mma_tf32(sum[m][j], a, b0[j], b1[j]);
        }
    }
}

// Calls f(result, row, values of rows row .. row + 3) for all that the lane holds of `sum`.
template <class F>
__device__ __forceinline__ void visit_results(const float (&sum)[TILES][TILES][4], int num_results, int row, F f)
{
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int m = 0; m < TILES; ++m) {
#pragma unroll
        for (int part = 0; part < 4; ++part) {              // of C: rows g and g + 8, columns 2t and 2t + 1
            const int result = 16 * m + g + part / 2 * 8;
            const float values[4] = {sum[m][0][part], sum[m][1][part], sum[m][2][part], sum[m][3][part]};
            if (result < num_results) f(result, row + 4 * (2 * t + part % 2), values);
        }
    }
}

__device__ __forceinline__ float activate(float y)
{
    if (ACTIVATION == RELU) return fmaxf(y, 0.0f);
    if (ACTIVATION == SIGMOID) return 1.0f / (1.0f + __expf(-y));
    return y;
}

__device__ __forceinline__ void clear(float (&sum)[TILES][TILES][4])
{
#pragma unroll
    for (int k = 0; k < TILES * TILES * 4; ++k) sum[k / 16][k / 4 % 4][k % 4] = 0.0f;
}

// Grid (rows / 256, outputs / RESULTS), block (32, WARPS); a warp owns 32 rows.
extern "C" __global__ void __launch_bounds__(256, 2) matrix_forward(
    const float* __restrict__ x,            // [num_inputs, stride]
    int stride,
    const unsigned* __restrict__ num_rows,  // [1]
    const float* __restrict__ weights,      // [num_inputs + 1, num_outputs]
    int num_inputs, int num_outputs,
    float* __restrict__ y)                  // [num_outputs, stride]
{
    __shared__ float w[MAX_WIDTH * PITCH];  // tf32: w[i][c] = W[i][first + c]
    __shared__ float bias[RESULTS];
    const int n = *num_rows, begin = blockIdx.x * WARPS * WARP_ROWS, first = blockIdx.y * RESULTS;
    if (begin >= n) return;
    const int num_results = min(RESULTS, num_outputs - first), thread = threadIdx.y * 32 + threadIdx.x;
    for (int k = thread; k < (num_inputs + 7) / 8 * 8 * RESULTS; k += 32 * WARPS) {
        const int i = k / RESULTS, c = k % RESULTS;
        const float value = i < num_inputs && c < num_results ? weights[(size_t)i * num_outputs + first + c] : 0.0f;
        w[i * PITCH + c] = __uint_as_float(tf32(value));
    }
    if (thread < num_results) bias[thread] = weights[(size_t)num_inputs * num_outputs + first + thread];
    __syncthreads();
    const int row = begin + threadIdx.y * WARP_ROWS;
    if (row >= n) return;
    float sum[TILES][TILES][4];
    clear(sum);
    add_product(x, stride, num_inputs, row, n, w, num_results, sum);
    visit_results(sum, num_results, row, [&](int result, int at, const float (&values)[4]) {
        float active[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) active[j] = activate(values[j] + bias[result]);
        store_rows(y + (size_t)(first + result) * stride, at, n, active);
    });
}

// Grid (rows / 256, inputs / RESULTS), block (32, WARPS); a warp owns 32 rows.
extern "C" __global__ void __launch_bounds__(256, 2) matrix_backward_inputs(
    const float* __restrict__ d_y,          // [num_outputs, stride] before the activation
    int stride,
    const unsigned* __restrict__ num_rows,  // [1]
    const float* __restrict__ weights,      // [num_inputs + 1, num_outputs]
    int num_inputs, int num_outputs,
    const float* __restrict__ x,            // [num_inputs, stride] output of the ReLU before this layer, or null: no ReLU
    float* __restrict__ d_x)                // [num_inputs, stride] before that ReLU
{
    __shared__ float w[MAX_WIDTH * PITCH];  // tf32, transposed: w[o][c] = W[first + c][o]
    const int n = *num_rows, begin = blockIdx.x * WARPS * WARP_ROWS, first = blockIdx.y * RESULTS;
    if (begin >= n) return;
    const int num_results = min(RESULTS, num_inputs - first), thread = threadIdx.y * 32 + threadIdx.x;
    for (int k = thread; k < RESULTS * num_outputs; k += 32 * WARPS) {
        const int c = k / num_outputs, o = k % num_outputs;
        w[o * PITCH + c] = c < num_results ? __uint_as_float(tf32(weights[(size_t)first * num_outputs + k])) : 0.0f;
    }
    __syncthreads();
    const int row = begin + threadIdx.y * WARP_ROWS;
    if (row >= n) return;
    float sum[TILES][TILES][4];
    clear(sum);
    add_product(d_y, stride, num_outputs, row, n, w, num_results, sum);
    visit_results(sum, num_results, row, [&](int result, int at, const float (&values)[4]) {
        const size_t plane = (size_t)(first + result) * stride;
        float d[4], relu[4] = {1.0f, 1.0f, 1.0f, 1.0f};
        if (x) load_rows(x + plane, at, n, true, relu);
#pragma unroll
        for (int j = 0; j < 4; ++j) d[j] = relu[j] > 0.0f ? values[j] : 0.0f;
        store_rows(d_x + plane, at, n, d);
    });
}

#define SUM_ROWS 512                // rows of the batch of a block of matrix_backward_weights
#define HALF 32                     // inputs of a warp: half of the block's 64
#define ROW_GROUPS (WARPS / 2)
#define OUTPUT_TILES 8              // of 8 outputs

// Grid (rows / SUM_ROWS, pairs of 64 inputs and 64 outputs), block (32, WARPS). Warps 2 r and 2 r + 1 sum every ROW_GROUPS-th 32 rows
// for the block's first and second 32 inputs. In a product, rows of the batch are k: 8 t + j and 8 t + 4 + j of 32 are k = t and t + 4.
extern "C" __global__ void __launch_bounds__(256, 1) matrix_backward_weights(
    const float* __restrict__ x,            // [num_inputs, stride]
    const float* __restrict__ d_y,          // [num_outputs, stride] before the activation
    int stride,
    const unsigned* __restrict__ num_rows,  // [1]
    int num_inputs, int num_outputs,
    float* __restrict__ d_weights)          // [num_inputs + 1, num_outputs] added to
{
    __shared__ float total[RESULTS + 1][RESULTS];           // [input, output]; the last row the bias
    const int begin = blockIdx.x * SUM_ROWS, end = min(begin + SUM_ROWS, (int)*num_rows);
    if (begin >= end) return;
    const int across = (num_outputs + RESULTS - 1) / RESULTS, thread = threadIdx.y * 32 + threadIdx.x;
    const int first_input = blockIdx.y / across * RESULTS, first_output = blockIdx.y % across * RESULTS;
    const int g = threadIdx.x / 4, t = threadIdx.x % 4, half = threadIdx.y % 2 * HALF;
    for (int k = thread; k < (RESULTS + 1) * RESULTS; k += 32 * WARPS) (&total[0][0])[k] = 0.0f;
    __syncthreads();
    float sum[2][OUTPUT_TILES][4] = {}, bias[OUTPUT_TILES] = {};
    for (int row = begin + threadIdx.y / 2 * WARP_ROWS; row < end; row += ROW_GROUPS * WARP_ROWS) {
        unsigned a[2][4][4];                                // of 16 inputs and product j: A's registers
#pragma unroll
        for (int m = 0; m < 2; ++m) {
#pragma unroll
            for (int part = 0; part < 4; ++part) {
                const int input = first_input + half + 16 * m + g + part % 2 * 8;
                float values[4];
                load_rows(x + (size_t)input * stride, row + 8 * t + part / 2 * 4, end, input < num_inputs, values);
#pragma unroll
                for (int j = 0; j < 4; ++j) a[m][j][part] = tf32(values[j]);
            }
        }
#pragma unroll
        for (int tile = 0; tile < OUTPUT_TILES; ++tile) {
            const int output = first_output + 8 * tile + g;
            if (first_output + 8 * tile >= num_outputs) continue;
            float d0[4], d1[4];
            load_rows(d_y + (size_t)output * stride, row + 8 * t, end, true, d0);
            load_rows(d_y + (size_t)output * stride, row + 8 * t + 4, end, true, d1);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                bias[tile] += d0[j] + d1[j];
                const unsigned b0 = tf32(d0[j]), b1 = tf32(d1[j]);
                mma_tf32(sum[0][tile], a[0][j], b0, b1);
                mma_tf32(sum[1][tile], a[1][j], b0, b1);
            }
        }
    }
#pragma unroll
    for (int tile = 0; tile < OUTPUT_TILES; ++tile) {
#pragma unroll
        for (int m = 0; m < 2; ++m) {
#pragma unroll
            for (int part = 0; part < 4; ++part)
                atomicAdd(&total[half + 16 * m + g + part / 2 * 8][8 * tile + 2 * t + part % 2], sum[m][tile][part]);
        }
        if (half == 0) atomicAdd(&total[RESULTS][8 * tile + g], bias[tile]);
    }
    __syncthreads();
    const int num_own = min(RESULTS, num_inputs - first_input);
    for (int k = thread; k < num_own * RESULTS; k += 32 * WARPS) {
        const int i = k / RESULTS, o = k % RESULTS;
        if (first_output + o < num_outputs)
            atomicAdd(d_weights + (size_t)(first_input + i) * num_outputs + first_output + o, total[i][o]);
    }
    if (first_input == 0 && thread < min(RESULTS, num_outputs - first_output))
        atomicAdd(d_weights + (size_t)num_inputs * num_outputs + first_output + thread, total[RESULTS][thread]);
}
