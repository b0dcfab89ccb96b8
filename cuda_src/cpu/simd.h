// One SIMD vector of the hardware's width: the few operations that have no operator in GCC's vector extensions.
#pragma once
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

SPLAT_CPU_INLINE float sum_of(Floats v)
{
#if defined(SPLAT_CPU_AVX512)
    return _mm512_reduce_add_ps((__m512)v);
#else
    float lanes[WIDTH];
    memcpy(lanes, &v, sizeof v);
    for (int half = WIDTH / 2; half; half /= 2)
        for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    return lanes[0];
#endif
}

// 2^x to about 1 ulp; 0 below -126.5, infinity from 127.5. Adding 1.5 * 2^23 rounds x to an integer n and leaves n in the low
// bits, from where a shift moves it into the exponent. The polynomial (Remez, relative error 2e-9) gives 2^f on [-1/2, 1/2].
SPLAT_CPU_INLINE Floats exp2(Floats x)
{
    const Floats low = broadcast(-127.0f), high = broadcast(128.0f);
    x = x < low ? low : x;
    x = x > high ? high : x;
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
