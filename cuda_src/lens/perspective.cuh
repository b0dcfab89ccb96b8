// The pinhole camera: radius r / z.
#pragma once
#include "lens/place.cuh"

__device__ __forceinline__ Radius perspective_radius(vfloat r, vfloat z)
{
    Radius radius;
    radius.by_r = 1.0f / z;
    radius.value = r * radius.by_r;
    radius.by_z = -radius.value * radius.by_r;
    return radius;
}
