// The FOV model (Devernay and Faugeras 2001): radius atan(tangent r / z) / omega. c: omega, tangent = 2 tan(omega / 2).
#pragma once
#include "lens/place.cuh"

__device__ __forceinline__ Radius fov_radius(const float* c, vfloat r, vfloat z)
{
    const vfloat scaled = c[1] * r, factor = c[1] / (c[0] * (scaled * scaled + z * z));
    Radius radius;
    radius.value = atan2f(scaled, z) / c[0];
    radius.by_r = factor * z;
    radius.by_z = -factor * r;
    return radius;
}
