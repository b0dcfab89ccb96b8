// One SIMD vector of the hardware's width: operations that GCC's vector extensions have no operator for.
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
typedef unsigned Unsigneds __attribute__((vector_size(4 * WIDTH)));

SPLAT_CPU_INLINE Floats broadcast(float x) { return x - Floats{}; }
SPLAT_CPU_INLINE Ints broadcast(int x) { return x - Ints{}; }

// A truth value per lane. AVX-512 has mask registers, which GCC's vector extensions do not use.
#if defined(SPLAT_CPU_AVX512)
struct Mask { __mmask16 bits; };
SPLAT_CPU_INLINE Mask mask_from(bool x) { return {(__mmask16)-(int)x}; }
SPLAT_CPU_INLINE Mask operator&(Mask a, Mask b) { return {(__mmask16)(a.bits & b.bits)}; }
SPLAT_CPU_INLINE Mask operator|(Mask a, Mask b) { return {(__mmask16)(a.bits | b.bits)}; }
SPLAT_CPU_INLINE Mask operator^(Mask a, Mask b) { return {(__mmask16)(a.bits ^ b.bits)}; }
SPLAT_CPU_INLINE Mask operator~(Mask a) { return {(__mmask16)~a.bits}; }
SPLAT_CPU_INLINE Floats choose(Mask m, Floats a, Floats b) { return (Floats)_mm512_mask_blend_ps(m.bits, (__m512)b, (__m512)a); }
SPLAT_CPU_INLINE Ints choose(Mask m, Ints a, Ints b) { return (Ints)_mm512_mask_blend_epi32(m.bits, (__m512i)b, (__m512i)a); }
#define SPLAT_CPU_COMPARISON(name, op, of_floats, of_ints)                                                                        \
    SPLAT_CPU_INLINE Mask name(Floats a, Floats b) { return {_mm512_cmp_ps_mask((__m512)a, (__m512)b, of_floats)}; }              \
    SPLAT_CPU_INLINE Mask name(Ints a, Ints b) { return {_mm512_cmp_epi32_mask((__m512i)a, (__m512i)b, of_ints)}; }
#else
typedef Ints Mask;                            // -1 is true, 0 is false
SPLAT_CPU_INLINE Mask mask_from(bool x) { return broadcast(-(int)x); }
SPLAT_CPU_INLINE Floats choose(Mask m, Floats a, Floats b) { return m ? a : b; }
SPLAT_CPU_INLINE Ints choose(Mask m, Ints a, Ints b) { return m ? a : b; }
#define SPLAT_CPU_COMPARISON(name, op, of_floats, of_ints)                  \
    SPLAT_CPU_INLINE Mask name(Floats a, Floats b) { return a op b; }       \
    SPLAT_CPU_INLINE Mask name(Ints a, Ints b) { return a op b; }
#endif
SPLAT_CPU_COMPARISON(less, <, _CMP_LT_OQ, _MM_CMPINT_LT)
SPLAT_CPU_COMPARISON(less_equal, <=, _CMP_LE_OQ, _MM_CMPINT_LE)
SPLAT_CPU_COMPARISON(equal, ==, _CMP_EQ_OQ, _MM_CMPINT_EQ)
SPLAT_CPU_COMPARISON(not_equal, !=, _CMP_NEQ_UQ, _MM_CMPINT_NE)

SPLAT_CPU_INLINE Ints counting(int first)
{
    Ints v;
    for (int i = 0; i < WIDTH; ++i) v[i] = first + i;
    return v;
}

// a < b ? a : b (maximum: with >), so the result is b if a or b is NaN.
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

SPLAT_CPU_INLINE Floats round_down(Floats a)
{
#if defined(SPLAT_CPU_AVX512)
    return (Floats)_mm512_roundscale_ps((__m512)a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
#elif defined(SPLAT_CPU_AVX2)
    return (Floats)_mm256_floor_ps((__m256)a);
#elif defined(__x86_64__)
    for (int i = 0; i < WIDTH; ++i) a[i] = floorf(a[i]);
    return a;
#else
    return (Floats)vrndmq_f32((float32x4_t)a);
#endif
}

// a b + c, rounded once.
SPLAT_CPU_INLINE Floats multiply_add(Floats a, Floats b, Floats c)
{
#if defined(SPLAT_CPU_AVX512)
    return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(SPLAT_CPU_AVX2) && defined(__FMA__)
    return (Floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__x86_64__)
    for (int i = 0; i < WIDTH; ++i) a[i] = fmaf(a[i], b[i], c[i]);
    return a;
#else
    return (Floats)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#endif
}

// Bit i is lane i.
SPLAT_CPU_INLINE unsigned bits_of(Mask m)
{
#if defined(SPLAT_CPU_AVX512)
    return m.bits;
#elif defined(SPLAT_CPU_AVX2)
    return (unsigned)_mm256_movemask_ps((__m256)m);
#elif defined(__x86_64__)
    return (unsigned)_mm_movemask_ps((__m128)m);
#else
    const Ints weights = {1, 2, 4, 8};
    return (unsigned)vaddvq_s32((int32x4_t)(m & weights));
#endif
}

// 2^x for -126 <= x <= 127. Undefined beyond, because the exponent is added as an integer.
SPLAT_CPU_INLINE Floats exp2_bounded(Floats x)
{
    const Floats shifted = x + ROUNDER;
    return (Floats)((Unsigneds)exp2_fraction(x - (shifted - ROUNDER)) + ((Unsigneds)shifted << 23));
}

// Like exp2_fast for a float.
SPLAT_CPU_INLINE Floats exp2_fast(Floats x)
{
    x = minimum(broadcast(128.0f), maximum(broadcast(-127.0f), x));       // NaN stays NaN
    const Floats shifted = x + ROUNDER;
    return exp2_fraction(x - (shifted - ROUNDER)) * (Floats)(((Ints)shifted + 127) << 23);
}

// log2(x) for normal x > 0, with an absolute error of about 1e-7: the exponent, plus a series in (m - 1) / (m + 1) for the rest m,
// which lies between sqrt(1/2) and sqrt(2).
SPLAT_CPU_INLINE Floats log2_fast(Floats x)
{
    const Ints exponent = ((Ints)x - 0x3f3504f3) >> 23;                     // bits of sqrt(1/2)
    const Floats m = (Floats)((Ints)x - (exponent << 23)), s = (m - 1.0f) / (m + 1.0f), t = s * s;
    const Floats series = 1.0f + t * (1.0f / 3.0f + t * (1.0f / 5.0f + t * (1.0f / 7.0f + t * (1.0f / 9.0f))));
    return __builtin_convertvector(exponent, Floats) + 2.885390081777927f * s * series;
}

}  // namespace splat_cpu
