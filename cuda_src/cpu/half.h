// CPU version of half.cuh. A multiplication shifts the exponent's bias, which also handles denormals.
#pragma once
#include "device_math.h"

inline float half_to_float(unsigned short bits)
{
    const float magnitude = __uint_as_float((bits & 0x7fffu) << 13) * 0x1p112f;
    return bits & 0x8000u ? -magnitude : magnitude;
}

inline unsigned short float_to_half(float x)        // rounds to nearest, ties to even; clamps to the largest half
{
    unsigned bits = __float_as_uint(fminf(fabsf(x), 65504.0f) * 0x1p-112f);
    bits += 0xfffu + (bits >> 13 & 1u);
    return (unsigned short)(bits >> 13 | (x < 0.0f ? 0x8000u : 0u));
}
