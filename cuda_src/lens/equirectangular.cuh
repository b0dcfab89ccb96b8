// Spherical pictures: x is the longitude, y the latitude (down), radians.
#pragma once
#include "lens/place.cuh"

// Distance of a point from the vertical axis, not zero.
__device__ __forceinline__ vfloat distance_from_poles(vfloat3 t)
{
    return fmaxf(sqrtf(t.x * t.x + t.z * t.z), 1e-6f * fabsf(t.y) + 1e-18f);
}

__device__ __forceinline__ Place equirectangular_place(vfloat3 t)
{
    Place p;
    p.x = atan2f(t.x, t.z);
    p.y = atan2f(t.y, distance_from_poles(t));
    return p;
}

__device__ __forceinline__ vfloat3 equirectangular_backward(vfloat3 t, Place d)
{
    const vfloat h = distance_from_poles(t), by_longitude = d.x / (h * h), by_latitude = d.y / (h * h + t.y * t.y);
    const vfloat outward = by_latitude * t.y / h;
    return make_vec(by_longitude * t.z - outward * t.x, by_latitude * h, -by_longitude * t.x - outward * t.z);
}
