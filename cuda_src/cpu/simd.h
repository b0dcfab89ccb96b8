// One SIMD vector of the hardware's width: the few operations that have no operator in GCC's vector extensions.
#pragma once
#include <utility>

#include "atomics.h"
#include "device_math.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace splat_cpu {

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define SPLAT_CPU_AVX512
constexpr int WIDTH = 16;
#elif defined(__AVX2__)
#define SPLAT_CPU_AVX2
constexpr int WIDTH = 8;
#else
constexpr int WIDTH = 4;
#endif

typedef float Floats __attribute__((vector_size(4 * WIDTH)));
typedef int Ints __attribute__((vector_size(4 * WIDTH)));
typedef Ints Mask;                            // -1 where true, 0 where false

SPLAT_CPU_INLINE Floats broadcast(float x) { return x - Floats{}; }
SPLAT_CPU_INLINE Ints broadcast(int x) { return x - Ints{}; }
SPLAT_CPU_INLINE Mask mask_of(bool x) { return broadcast(-(int)x); }
SPLAT_CPU_INLINE Mask to_mask(Ints comparison) { return comparison; }
SPLAT_CPU_INLINE Mask invert(Mask m) { return ~m; }

SPLAT_CPU_INLINE Ints counting(int first)
{
    Ints v;
    for (int i = 0; i < WIDTH; ++i) v[i] = first + i;
    return v;
}

template <class V> SPLAT_CPU_INLINE V select(Mask m, V a, V b) { return m ? a : b; }

// a < b ? a : b, and with >: of a number and NaN, b.
SPLAT_CPU_INLINE Floats minimum(Floats a, Floats b)
{
#if defined(SPLAT_CPU_AVX512)
    return (Floats)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(SPLAT_CPU_AVX2)
    return (Floats)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__x86_64__)
    return (Floats)_mm_min_ps((__m128)a, (__m128)b);
#else
    return a < b ? a : b;
#endif
}
SPLAT_CPU_INLINE Floats maximum(Floats a, Floats b)
{
#if defined(SPLAT_CPU_AVX512)
    return (Floats)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(SPLAT_CPU_AVX2)
    return (Floats)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__x86_64__)
    return (Floats)_mm_max_ps((__m128)a, (__m128)b);
#else
    return a > b ? a : b;
#endif
}

SPLAT_CPU_INLINE Floats absolute(Floats a) { return (Floats)((Ints)a & 0x7fffffff); }

SPLAT_CPU_INLINE Floats square_root(Floats a)
{
#if defined(SPLAT_CPU_AVX512)
    return (Floats)_mm512_sqrt_ps((__m512)a);
#elif defined(SPLAT_CPU_AVX2)
    return (Floats)_mm256_sqrt_ps((__m256)a);
#elif defined(__x86_64__)
    return (Floats)_mm_sqrt_ps((__m128)a);
#else
    return (Floats)vsqrtq_f32((float32x4_t)a);
#endif
}

// Bit i is lane i.
SPLAT_CPU_INLINE unsigned bits_of(Mask m)
{
#if defined(SPLAT_CPU_AVX512)
    return _mm512_movepi32_mask((__m512i)m);
#elif defined(SPLAT_CPU_AVX2)
    return (unsigned)_mm256_movemask_ps((__m256)m);
#elif defined(__x86_64__)
    return (unsigned)_mm_movemask_ps((__m128)m);
#else
    const Ints weights = {1, 2, 4, 8};
    return (unsigned)vaddvq_s32((int32x4_t)(m & weights));
#endif
}

// {a[0], b[0], ...} of each run of SPAN lanes: out's first half of a run is a's half FROM, its second half b's half FROM.
template <int SPAN, int FROM, size_t... I> SPLAT_CPU_INLINE Floats halves(Floats a, Floats b, std::index_sequence<I...>)
{
    constexpr auto source = [](int i) { return i % SPAN < SPAN / 2 ? i + FROM * SPAN / 2 : i - SPAN / 2 + FROM * SPAN / 2 + WIDTH; };
#if defined(__clang__)
    return __builtin_shufflevector(a, b, source((int)I)...);
#else
    return __builtin_shuffle(a, b, Ints{source((int)I)...});
#endif
}

// Adds up N <= WIDTH vectors at once: each step folds two vectors into one, whose runs of lanes are half as long and stand for
// twice as many sums, so that N sums cost little more than N folds. Lane i ends with the sum of vector summed_in_lane(i).
template <int SPAN = WIDTH, int N> SPLAT_CPU_INLINE Floats sums_of(const Floats (&v)[N])
{
    if constexpr (SPAN == 1) return v[0];
    else {
        constexpr auto lanes = std::make_index_sequence<WIDTH>();
        Floats folded[(N + 1) / 2];
#pragma GCC unroll 16
        for (int k = 0; k < N; k += 2) {
            const Floats a = v[k], b = k + 1 < N ? v[(k + 1) % N] : Floats{};
            folded[k / 2] = halves<SPAN, 0>(a, b, lanes) + halves<SPAN, 1>(a, b, lanes);
        }
        return sums_of<SPAN / 2>(folded);
    }
}
constexpr int lane_of_sum(int k)              // the bits of k in reverse
{
    int lane = 0;
    for (int bit = 1; bit < WIDTH; bit *= 2) lane = 2 * lane + (k & bit ? 1 : 0);
    return lane;
}

template <size_t... I> SPLAT_CPU_INLINE Floats in_order(Floats a, std::index_sequence<I...>)
{
#if defined(__clang__)
    return __builtin_shufflevector(a, a, lane_of_sum((int)I)...);
#else
    return __builtin_shuffle(a, Ints{lane_of_sum((int)I)...});
#endif
}
SPLAT_CPU_INLINE float sum_of(Floats v)
{
    const Floats one[1] = {v};
    return sums_of(one)[0];
}

// 2^x to about 1 ulp; 0 below -126.5, infinity from 127.5. Adding 1.5 * 2^23 rounds x to an integer n and leaves n in the low
// bits, from where a shift moves it into the exponent. The polynomial (Remez, relative error 2e-9) gives 2^f on [-1/2, 1/2].
SPLAT_CPU_INLINE Floats exp2(Floats x)
{
    x = minimum(maximum(x, broadcast(-127.0f)), broadcast(128.0f));
    const Floats shifted = x + 12582912.0f;
    const Floats f = x - (shifted - 12582912.0f);
    const Floats scale = (Floats)(((Ints)shifted + 127) << 23);
    Floats p = broadcast(1.5345812424e-4f);
    p = p * f + 1.3399931220e-3f;
    p = p * f + 9.6184889570e-3f;
    p = p * f + 5.5503287770e-2f;
    p = p * f + 2.4022646891e-1f;
    p = p * f + 6.9314720574e-1f;
    p = p * f + 1.0f;
    return p * scale;
}

}  // namespace splat_cpu
