// NVIDIA's FTheta: radius a + c[0] a^2 + c[1] a^3 + c[2] a^4 + c[3] a^5, where a is the angle to the axis.
#pragma once
#include "lens/fisheye.cuh"

__device__ __forceinline__ Radius ftheta_radius(const float* c, vfloat r, vfloat z)
{
    Radius radius = fisheye_radius(r, z);               // of a
    const vfloat a = radius.value, slope = 1.0f + a * (2.0f * c[0] + a * (3.0f * c[1] + a * (4.0f * c[2] + a * (5.0f * c[3]))));
    radius.value = a * (1.0f + a * (c[0] + a * (c[1] + a * (c[2] + a * c[3]))));
    radius.by_r *= slope;
    radius.by_z *= slope;
    return radius;
}
