// Lane kernels: written once per warp instead of once per thread. A block is (32, W) threads; vfloat, vint and vbool hold one
// value per lane. On the GPU a lane is a thread, and these types are float, int and bool. On the CPU one fiber computes all 32
// lanes with SIMD vectors.
// Rules:
//  - Combine vbool with & | ^ and !, never with && || ~ (on the GPU ~true is -2, which is true).
//  - Use lane_id() instead of threadIdx.x.
//  - Code under `if (some(m))` masks its stores and calls no warp-wide operation.
#pragma once

#ifdef SPLAT_CPU
#include "cpu/lanes_cpu.h"
#else

#include "numbers.cuh"

#define LANE_SUMS 64                          // values per lane that a loop can keep in registers

SPLAT_LANE vint lane_id() { return (int)threadIdx.x; }
SPLAT_LANE bool leader() { return threadIdx.x == 0; }        // true in one lane of the warp; it stores results that all lanes have

// For 32 elements that begin at `first`: the index of the lane's own one. p + own(first) is the address that ..._own functions take. On
// the CPU one fiber has all 32 lanes, and own(first) is `first`.
SPLAT_LANE int own(int first) { return first + (int)threadIdx.x; }

SPLAT_LANE vfloat vmin(vfloat a, vfloat b) { return fminf(a, b); }
SPLAT_LANE vfloat vmax(vfloat a, vfloat b) { return fmaxf(a, b); }
SPLAT_LANE vfloat vabs(vfloat a) { return fabsf(a); }
SPLAT_LANE vfloat vsqrt(vfloat a) { return sqrtf(a); }
SPLAT_LANE vfloat vrcp(vfloat a) { return __fdividef(1.0f, a); }
SPLAT_LANE vfloat vexp2(vfloat a)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(a));
    return y;
}
SPLAT_LANE vfloat vexp2_bounded(vfloat a) { return vexp2(a); }       // for -126 <= a <= 127
SPLAT_LANE vfloat vlog2(vfloat a) { return __log2f(a); }
SPLAT_LANE vfloat vexp(vfloat a) { return vexp2(1.4426950408889634f * a); }

SPLAT_LANE bool any(vbool m) { return __any_sync(0xffffffffu, m); }
SPLAT_LANE bool all(vbool m) { return __all_sync(0xffffffffu, m); }
SPLAT_LANE unsigned ballot(vbool m) { return __ballot_sync(0xffffffffu, m); }
// The lanes of all sectors of 32 bytes (of 8 elements) in which m holds for a lane. On the CPU: all lanes, if it holds for any.
SPLAT_LANE vbool sectors_of(vbool m) { return (ballot(m) >> (threadIdx.x & 24) & 0xffu) != 0; }
// Number of bits of `lanes` below the lane's own. Only on the GPU.
SPLAT_LANE int count_below(unsigned lanes)
{
    unsigned below;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
    return __popc(lanes & below);
}

// Lane i accesses p[i].
SPLAT_LANE vfloat load_row(const float* p, vbool m) { return load(p, lane_id(), m); }
template <class U> SPLAT_LANE vint load_row(const U* p, vbool m) { return load(p, lane_id(), m); }
template <class U, class T> SPLAT_LANE void store_row(U* p, T v, vbool m) { store(p, lane_id(), v, m); }

SPLAT_LANE float warp_sum(vfloat v)
{
    for (int bit = 16; bit; bit >>= 1) v += __shfl_xor_sync(0xffffffffu, v, bit);
    return v;
}

SPLAT_LANE float warp_product(vfloat v)
{
    for (int bit = 16; bit; bit >>= 1) v *= __shfl_xor_sync(0xffffffffu, v, bit);
    return v;
}

// Sums N values over all lanes at once. In each round a lane gives half of its values to its partner and receives the partner's
// share of the other half, so N values need about N + 3 shuffles instead of 5 N. Lane i ends with the sum of value
// butterfly_index<N>(i). Example for N = 2: after round 1, lanes 0-15 own value 0 and lanes 16-31 own value 1, each as 16 partial
// sums; four more rounds add these up.
template <int N, int BIT> SPLAT_LANE float butterfly(const float (&v)[N])
{
    constexpr int HALF = (N + 1) / 2;
    const bool upper = threadIdx.x & BIT;
    float kept[HALF];
#pragma unroll
    for (int k = 0; k < HALF; ++k) {
        if (N == 1) {
            kept[0] = v[0] + __shfl_xor_sync(0xffffffffu, v[0], BIT);
        } else {
            const float high = HALF + k < N ? v[(HALF + k) % N] : 0.0f;
            const float other = __shfl_xor_sync(0xffffffffu, upper ? v[k] : high, BIT);
            kept[k] = (upper ? high : v[k]) + other;
        }
    }
    if constexpr (BIT > 1) return butterfly<HALF, BIT / 2>(kept);
    else return kept[0];
}
template <int N> SPLAT_LANE int butterfly_index(int lane)       // -1: this lane holds a copy, or nothing
{
    int first = 0, size = N, valid = N;
    bool twin = false;
#pragma unroll
    for (int bit = 16; bit; bit >>= 1) {
        const bool upper = lane & bit;
        const int half = (size + 1) / 2;
        if (size == 1) { twin = twin || upper; continue; }
        first += upper ? half : 0;
        valid = upper ? valid - half : min(valid, half);
        size = half;
    }
    return twin || valid <= 0 ? -1 : first;
}

// dst[k] += sum over lanes of v[k]. Each value takes one atomic; all N are in one instruction of the warp.
template <int N> SPLAT_LANE void warp_add(float* dst, vfloat (&v)[N])
{
    static_assert(N <= 32, "a lane ends with one value");
    const float sum = butterfly<N, 16>(v);
    const int k = butterfly_index<N>(threadIdx.x);
    if (k >= 0) atomicAdd(dst + k, sum);
}

// *counter += number of lanes in which m holds.
SPLAT_LANE void add_count(unsigned* counter, vbool m) { if (m) atomicAdd(counter, 1u); }
// The same, and gives each of these lanes a distinct index, counting from the old value of the counter. The order is arbitrary.
SPLAT_LANE vint append_index(unsigned* counter, vbool m) { return m ? (int)atomicAdd(counter, 1u) : 0; }
// Adds `count` once per warp and returns the old value. All lanes call it.
SPLAT_LANE unsigned warp_atomic_add(unsigned* counter, unsigned count)
{
    return __shfl_sync(0xffffffffu, leader() ? atomicAdd(counter, count) : 0u, 0);
}
// p[i] += v in each lane in which m holds; returns the old value.
SPLAT_LANE vint atomic_add(unsigned* p, vint i, int v, vbool m) { return m ? (int)atomicAdd(p + i, (unsigned)v) : 0; }
// Calls f(i, v) in each lane in which m holds.
template <class F> SPLAT_LANE void for_each(vint i, vfloat v, vbool m, F f) { if (m) f(i, v); }
// p[i] = high << 32 | low in each lane in which m holds.
SPLAT_LANE void store_pair(unsigned long long* p, vint i, vint low, vint high, vbool m)
{
    if (m) p[i] = (unsigned long long)(unsigned)high << 32 | (unsigned)low;
}

SPLAT_LANE int warp_max(vint v)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(0xffffffffu, v);
#else
    for (int bit = 16; bit; bit >>= 1) v = max(v, __shfl_xor_sync(0xffffffffu, v, bit));
    return v;
#endif
}

// A loop over 0 .. n - 1 that the threads of the block share. The body is plain scalar code.
#define BLOCK_FOR(i, n) for (int i = threadIdx.y * 32 + threadIdx.x; i < (n); i += blockDim.y * 32)

SPLAT_LANE vfloat4 load4_row(const float4* p, vbool m) { return load4(p, lane_id(), m); }

#endif

// dst[k] = sum over lanes of v[k].
template <int N> __device__ __forceinline__ void store_sums(float* dst, const vfloat (&v)[N])
{
#pragma unroll
    for (int k = 0; k < N; ++k) {
        const float sum = warp_sum(v[k]);
        if (leader()) dst[k] = sum;
    }
}
