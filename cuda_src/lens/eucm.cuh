// The enhanced unified camera model (Khomutenko et al. 2016): radius r / (alpha sqrt(beta r^2 + z^2) + (1 - alpha) z). c: alpha, beta.
#pragma once
#include "lens/place.cuh"

__device__ __forceinline__ Radius eucm_radius(const float* c, vfloat r, vfloat z)
{
    const vfloat root = sqrtf(c[1] * r * r + z * z), inverse = 1.0f / (c[0] * root + (1.0f - c[0]) * z);
    Radius radius;
    radius.value = r * inverse;
    radius.by_r = inverse * (1.0f - c[0] * c[1] * r * radius.value / root);
    radius.by_z = -radius.value * inverse * (c[0] * z / root + 1.0f - c[0]);
    return radius;
}
