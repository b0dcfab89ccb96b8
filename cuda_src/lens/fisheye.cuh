// The equidistant fisheye: the radius is the angle to the axis.
#pragma once
#include "lens/place.cuh"

__device__ __forceinline__ Radius fisheye_radius(vfloat r, vfloat z)
{
    const vfloat inv_square = 1.0f / (r * r + z * z);
    Radius radius;
    radius.value = atan2f(r, z);
    radius.by_r = z * inv_square;
    radius.by_z = -r * inv_square;
    return radius;
}
