// Lane kernels that each use one part of lanes.cuh; the tests compute the same with NumPy.
#include "lanes.cuh"
#include "vectors.cuh"

// Every operator of vfloat on x and y: row k of out holds the result of operator k.
extern "C" __global__ void float_operators(const float* x /* [32] */, const float* y /* [32] */, float* out /* [26, 32] */)
{
    const vfloat a = load_row(x, true), b = load_row(y, true);
    vfloat c = a;
    c += b; c -= 0.5f; c *= b; c /= 2.0f;
    const vfloat results[26] = {
        a + b, a - b, a * b, a / b, -a, 1.0f + a, 1.0f - a, 2.0f * a, 1.0f / a, c, vmin(a, b), vmax(a, 0.25f), vabs(a),
        vsqrt(vabs(a)), vrcp(a), vexp2(a), vexp(a), select(a < b, a, b), select((a <= b) | (a > 1.0f), 1.0f, 0.0f),
        select((a >= b) & !(b == 0.5f), a, vfloat(0.0f)), select((a != b) ^ (b > 0.0f), b, a), to_float(to_int(a * 10.0f)),
        a + 1, select(vbool(true), a, b), vexp2_bounded(a), vlog2(vabs(a))};
    for (int k = 0; k < 26; ++k) store_row(out + 32 * k, results[k], true);
}

// The same for vint.
extern "C" __global__ void int_operators(const int* x /* [32] */, const int* y /* [32], positive */, int* out /* [20, 32] */)
{
    const vint a = load_row(x, true), b = load_row(y, true);
    vint c = a;
    c += b; c -= 3; c *= 2;
    const vint results[20] = {
        a + b, a - b, a * b, a / b, a % b, -a, ~a, a & b, a | b, a ^ b, a << 2, a >> 1, 7 - a, c, vmin(a, b), vmax(a, 5),
        select(a < b, a, b), select((a == b) | (a >= 4), 1, 0), select((a != 3) & (a <= b), a, vint(-1)), lane_id()};
    for (int k = 0; k < 20; ++k) store_row(out + 32 * k, results[k], true);
}

// Votes of one warp over x > threshold.
extern "C" __global__ void lane_votes(const float* x /* [32] */, float threshold, int* out /* [6] */)
{
    const vfloat v = load_row(x, true);
    const vbool m = v > threshold;
    const bool is_any = any(m), is_all = all(m);
    const unsigned bits = ballot(m);
    const int most = warp_max(to_int(v));
    int touched = 0;
    if (some(m)) touched = 1;
    if (leader()) {
        out[0] = is_any; out[1] = is_all; out[2] = (int)bits; out[3] = most;
    }
    store_row(out + 4, vint(touched), m & (lane_id() < 1));
}

// Gathers, scatters, masks and bytes: lane i of block b takes element index[i] unless that is negative.
extern "C" __global__ void lane_memory(
    const float* x, const int* y, const unsigned char* z, const float4* q,
    const int* index,                   // [N], N a multiple of 32
    float* fx, int* iy, unsigned char* bz, float* sum4)     // [N]
{
    const int first = 32 * (blockIdx.x * blockDim.y + threadIdx.y);
    const vint i = load_row(index + first, true);
    const vbool m = i >= 0;
    store(fx, i, load(x, i, m), m);
    store(iy, i, load(y, i, m), m);
    store(bz, i, load(z, i, m), m);
    const vfloat4 v = load4(q, i, m);
    vfloat first_half, second_half;
    load2((const float2*)q, 2 * i, first_half, second_half, m);
    store(sum4, i, first_half + 10.0f * second_half + 100.0f * v.z + 1000.0f * v.w, m);
}

// Contiguous rows; the last may be short.
extern "C" __global__ void lane_rows(const float* x, const unsigned* y, const unsigned char* z, const float4* q, int n,
                                     float* fx, unsigned* iy, unsigned char* bz, float* sum4)    // [n]
{
    const int first = 32 * (blockIdx.x * blockDim.y + threadIdx.y);
    const vbool m = first + lane_id() < n;
    store_row(fx + first, load_row(x + first, m), m);
    store_row(iy + first, load_row(y + first, m), m);
    store_row(bz + first, load_row(z + first, m), m);
    const vfloat4 v = load4_row(q + first, m);
    store_row(sum4 + first, v.x + 10.0f * v.y + 100.0f * v.z + 1000.0f * v.w, m);
}

// Marks each (block, warp) that ran.
extern "C" __global__ void lane_shape(int* out /* [blocks, W, Z, 3] */)
{
    const int warp = (blockIdx.x * blockDim.z + threadIdx.z) * blockDim.y + threadIdx.y;
    if (leader()) { out[3 * warp] = blockDim.x; out[3 * warp + 1] = threadIdx.y; out[3 * warp + 2] = threadIdx.z; }
}

// Functions by their CUDA names: row k of out holds the result of function k.
extern "C" __global__ void cuda_functions(const float* x /* [32] */, const float* y /* [32] */, float* out /* [15, 32] */)
{
    const vfloat a = load_own(x + own(0), true), b = load_own(y + own(0), true);
    const vfloat results[15] = {
        expf(a), logf(fabsf(a)), sqrtf(fabsf(a)), rsqrtf(fabsf(a)), floorf(a), ceilf(a), fminf(a, b), fmaxf(a, b), __fadd_rn(a, b),
        __fsub_rn(a, b), __fmul_rn(a, b), __fmaf_rn(a, b, 1.0f), __fdiv_rn(a, b), __fsqrt_rn(fabsf(a)),
        select(test_each(lane_id(), [](int i) { return i % 3 == 0; }), a, b)};
    for (int k = 0; k < 15; ++k) store_own(out + 32 * k + own(0), results[k], true);
}

// Own elements (scalars, vectors, rows) of lanes with positive x.
extern "C" __global__ void own_elements(const float* x /* [32] */, const float2* pairs /* [32] */, const float4* rows /* [32, 3] */,
                                        float2* out_pairs /* [32] */, float4* out_quads /* [32] */, float4* out_rows /* [32, 3] */)
{
    const vbool m = load_own(x + own(0), true) > 0.0f;
    vfloat a, b;
    load2_own(pairs + own(0), a, b, m);
    store2_own(out_pairs + own(0), b, a, m);
    for (int k = 0; k < 3; ++k) {
        const vfloat4 v = load4_own(rows + 3 * own(0) + k, m, 3);
        store4_own(out_rows + 3 * own(0) + k, v, m, 3);
        if (k == 0) store4(out_quads, 31 - lane_id(), v, m);
    }
}

// Counts lanes with positive x, in total and per bin.
extern "C" __global__ void counters(const float* x /* [32 blocks] */, const int* bins /* [32 blocks] */, unsigned* count /* [2] */,
                                    unsigned* places /* [32 blocks] */, unsigned* sums, unsigned long long* pairs /* [32 blocks] */)
{
    const int first = 32 * blockIdx.x;
    const vbool m = load_own(x + own(first), true) > 0.0f;
    const vint bin = load_own(bins + own(first), true);
    add_count(count, m);
    store_own(places + own(first), append_index(count + 1, m), m);
    const vint before = atomic_add(sums, bin, 2, m);
    atomic_add(sums, bin, -1, m);
    store_pair(pairs, first + lane_id(), bin, select(before >= 0, vint(7), vint(0)), m);
}
