// Radius of the image of a point, for each lens family: value and derivatives. r: distance of the point from the axis; c: coefficients of
// the family. Equirectangular pictures have no radius: their place has two angles.
#pragma once
#include "vectors.cuh"

struct Place { vfloat x, y; };                      // in the picture of focal length 1
struct Radius { vfloat value, by_r, by_z; };        // radius of the image, and its derivatives with respect to r = |(x, y)| and z

// The pinhole camera: radius r / z.
__device__ __forceinline__ Radius perspective_radius(vfloat r, vfloat z)
{
    Radius radius;
    radius.by_r = 1.0f / z;
    radius.value = r * radius.by_r;
    radius.by_z = -radius.value * radius.by_r;
    return radius;
}

// The equidistant fisheye: the radius is the angle to the axis.
__device__ __forceinline__ Radius fisheye_radius(vfloat r, vfloat z)
{
    const vfloat inv_square = 1.0f / (r * r + z * z);
    Radius radius;
    radius.value = atan2f(r, z);
    radius.by_r = z * inv_square;
    radius.by_z = -r * inv_square;
    return radius;
}

// The FOV model (Devernay and Faugeras 2001): radius atan(tangent r / z) / omega. c: omega, tangent = 2 tan(omega / 2).
__device__ __forceinline__ Radius fov_radius(const float* c, vfloat r, vfloat z)
{
    const vfloat scaled = c[1] * r, factor = c[1] / (c[0] * (scaled * scaled + z * z));
    Radius radius;
    radius.value = atan2f(scaled, z) / c[0];
    radius.by_r = factor * z;
    radius.by_z = -factor * r;
    return radius;
}

// The division model (Fitzgibbon 2001): r / z = radius / (1 + k radius^2), so radius = 2 r / (z + sqrt(z^2 - 4 k r^2)). c: k.
__device__ __forceinline__ Radius division_radius(const float* c, vfloat r, vfloat z)
{
    const vfloat root = sqrtf(z * z - 4.0f * c[0] * r * r), inverse = 1.0f / (z + root);
    Radius radius;
    radius.value = 2.0f * r * inverse;
    radius.by_r = 2.0f * inverse * (1.0f + 4.0f * c[0] * r * r * inverse / root);
    radius.by_z = -radius.value / root;
    return radius;
}

// The enhanced unified camera model (Khomutenko et al. 2016): radius r / (alpha sqrt(beta r^2 + z^2) + (1 - alpha) z). c: alpha, beta.
__device__ __forceinline__ Radius eucm_radius(const float* c, vfloat r, vfloat z)
{
    const vfloat root = sqrtf(c[1] * r * r + z * z), inverse = 1.0f / (c[0] * root + (1.0f - c[0]) * z);
    Radius radius;
    radius.value = r * inverse;
    radius.by_r = inverse * (1.0f - c[0] * c[1] * r * radius.value / root);
    radius.by_z = -radius.value * inverse * (c[0] * z / root + 1.0f - c[0]);
    return radius;
}

// NVIDIA's FTheta: radius a + c[0] a^2 + c[1] a^3 + c[2] a^4 + c[3] a^5, where a is the angle to the axis.
__device__ __forceinline__ Radius ftheta_radius(const float* c, vfloat r, vfloat z)
{
    Radius radius = fisheye_radius(r, z);               // of a
    const vfloat a = radius.value, slope = 1.0f + a * (2.0f * c[0] + a * (3.0f * c[1] + a * (4.0f * c[2] + a * (5.0f * c[3]))));
    radius.value = a * (1.0f + a * (c[0] + a * (c[1] + a * (c[2] + a * c[3]))));
    radius.by_r *= slope;
    radius.by_z *= slope;
    return radius;
}

// Spherical pictures: x is the longitude, y the latitude (down), radians.
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
