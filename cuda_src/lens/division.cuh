// The division model (Fitzgibbon 2001): r / z = radius / (1 + k radius^2), so radius = 2 r / (z + sqrt(z^2 - 4 k r^2)). c: k.
#pragma once
#include "lens/place.cuh"

__device__ __forceinline__ Radius division_radius(const float* c, vfloat r, vfloat z)
{
    const vfloat root = sqrtf(z * z - 4.0f * c[0] * r * r), inverse = 1.0f / (z + root);
    Radius radius;
    radius.value = 2.0f * r * inverse;
    radius.by_r = 2.0f * inverse * (1.0f + 4.0f * c[0] * r * r * inverse / root);
    radius.by_z = -radius.value / root;
    return radius;
}
