// Half precision stored as its 16 bits: needs no CUDA header, and the host compiler need not know the type.
#pragma once

#ifdef SPLAT_CPU
#include "cpu/half.h"
#else
__device__ __forceinline__ float half_to_float(unsigned short bits)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}

__device__ __forceinline__ unsigned short float_to_half(float x)
{
    unsigned short bits;
    asm("cvt.rn.satfinite.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
#endif
