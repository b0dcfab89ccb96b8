// CUDA's math functions and intrinsics that the C library lacks.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include "types.h"

using std::isfinite;
using std::isinf;
using std::isnan;

namespace splat_cpu {

// Keeps the compiler from contracting this result with a neighbouring operation into a fused multiply-add.
SPLAT_CPU_INLINE float rounded(float x)
{
#if defined(__x86_64__)
    asm("" : "+x"(x));
#else
    asm("" : "+w"(x));
#endif
    return x;
}

// 2^f for f in [-1/2, 1/2], for a float or a vector of floats: Remez polynomial, relative error 2e-9 before rounding.
template <class V> SPLAT_CPU_INLINE V exp2_fraction(V f)
{
    V p = 1.5345812424e-4f * f + 1.3399931220e-3f;
    p = p * f + 9.6184889570e-3f;
    p = p * f + 5.5503287770e-2f;
    p = p * f + 2.4022646891e-1f;
    p = p * f + 6.9314720574e-1f;
    return p * f + 1.0f;
}
// Adding 1.5 * 2^23 rounds a float to an integer n and leaves n in the low bits; a shift then moves n to the exponent.
constexpr float ROUNDER = 12582912.0f;

// 2^x to about 1 ulp, without branches or calls; 0 below -126.5, infinity from 127.5.
SPLAT_CPU_INLINE float exp2_fast(float x)
{
    x = x < -127.0f ? -127.0f : x > 128.0f ? 128.0f : x;
    const float shifted = x + ROUNDER;
    uint32_t bits;
    memcpy(&bits, &shifted, 4);
    bits = (bits + 127) << 23;
    float scale;
    memcpy(&scale, &bits, 4);
    return exp2_fraction(x - (shifted - ROUNDER)) * scale;
}

}  // namespace splat_cpu

#define SPLAT_CPU_MIN_MAX(T)                                             \
    SPLAT_CPU_INLINE constexpr T min(T a, T b) { return b < a ? b : a; } \
    SPLAT_CPU_INLINE constexpr T max(T a, T b) { return a < b ? b : a; }
SPLAT_CPU_MIN_MAX(int)
SPLAT_CPU_MIN_MAX(unsigned)
SPLAT_CPU_MIN_MAX(long long)
SPLAT_CPU_MIN_MAX(unsigned long long)
SPLAT_CPU_MIN_MAX(unsigned long)             // size_t; on Windows size_t is unsigned long long
// Like fminf and fmaxf: if one argument is NaN, the result is the other.
SPLAT_CPU_INLINE float min(float a, float b) { return a < b || b != b ? a : b; }
SPLAT_CPU_INLINE float max(float a, float b) { return a > b || b != b ? a : b; }
SPLAT_CPU_INLINE double min(double a, double b) { return a < b || b != b ? a : b; }
SPLAT_CPU_INLINE double max(double a, double b) { return a > b || b != b ? a : b; }
SPLAT_CPU_INLINE unsigned min(int a, unsigned b) { return min((unsigned)a, b); }
SPLAT_CPU_INLINE unsigned min(unsigned a, int b) { return min(a, (unsigned)b); }
SPLAT_CPU_INLINE unsigned max(int a, unsigned b) { return max((unsigned)a, b); }
SPLAT_CPU_INLINE unsigned max(unsigned a, int b) { return max(a, (unsigned)b); }

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float __expf(float x) { return splat_cpu::exp2_fast(x * 1.4426950408889634f); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }      // NaN gives 0

inline float __fadd_rn(float a, float b) { return splat_cpu::rounded(splat_cpu::rounded(a) + splat_cpu::rounded(b)); }
inline float __fsub_rn(float a, float b) { return splat_cpu::rounded(splat_cpu::rounded(a) - splat_cpu::rounded(b)); }
inline float __fmul_rn(float a, float b) { return splat_cpu::rounded(splat_cpu::rounded(a) * splat_cpu::rounded(b)); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }

inline unsigned __float_as_uint(float x) { unsigned bits; memcpy(&bits, &x, 4); return bits; }
inline float __uint_as_float(unsigned bits) { float x; memcpy(&x, &bits, 4); return x; }
inline int __float_as_int(float x) { return (int)__float_as_uint(x); }
inline float __int_as_float(int bits) { return __uint_as_float((unsigned)bits); }
inline int __float2int_rn(float x) { return (int)rintf(x); }
inline unsigned __float2uint_rn(float x) { return (unsigned)rintf(x); }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x)
{
    x = (x & 0x55555555u) << 1 | (x >> 1 & 0x55555555u);
    x = (x & 0x33333333u) << 2 | (x >> 2 & 0x33333333u);
    x = (x & 0x0f0f0f0fu) << 4 | (x >> 4 & 0x0f0f0f0fu);
    return __builtin_bswap32(x);
}
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
template <class T> T __ldg(const T* p) { return *p; }
