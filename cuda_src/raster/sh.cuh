// Real spherical harmonics up to degree 3, with the order and signs that all splat viewers use (Ramamoorthi and Hanrahan 2001, Sloan
// 2008). sh_visit passes each basis value and its gradient to a function, so that no arrays are needed.
#pragma once
#include "common.cuh"
#include "vectors.cuh"

#define SH_C0 0.28209479177387814f

// From the camera centre to a splat; harmonics are evaluated in its direction.
__device__ __forceinline__ vfloat3 ray_to(vfloat3 mean, const Camera& camera)
{
    return sub(mean, make_vec(camera.position[0], camera.position[1], camera.position[2]));
}

// Calls f(k, Y_k, dY_k/d(x, y, z)) for k = 1 .. (degree + 1)^2 - 1. d is a unit vector.
template <class F>
__device__ __forceinline__ void sh_visit(int degree, vfloat3 d, F f)
{
    const vfloat x = d.x, y = d.y, z = d.z;
    if (degree < 1) return;
    const float c1 = 0.4886025119029199f;
    f(1, -c1 * y, make_vec(0.0f, -c1, 0.0f));
    f(2, c1 * z, make_vec(0.0f, 0.0f, c1));
    f(3, -c1 * x, make_vec(-c1, 0.0f, 0.0f));
    if (degree < 2) return;
    const float c2 = 1.0925484305920792f, c20 = 0.31539156525252005f, c22 = 0.5462742152960396f;
    const vfloat xx = x * x, yy = y * y, zz = z * z;
    f(4, c2 * x * y, make_vec(c2 * y, c2 * x, 0.0f));
    f(5, -c2 * y * z, make_vec(0.0f, -c2 * z, -c2 * y));
    f(6, c20 * (2.0f * zz - xx - yy), make_vec(-2.0f * c20 * x, -2.0f * c20 * y, 4.0f * c20 * z));
    f(7, -c2 * x * z, make_vec(-c2 * z, 0.0f, -c2 * x));
    f(8, c22 * (xx - yy), make_vec(2.0f * c22 * x, -2.0f * c22 * y, 0.0f));
    if (degree < 3) return;
    const float c30 = 0.3731763325901154f, c31 = 0.4570457994644658f, c32 = 1.445305721320277f, c33 = 0.5900435899266435f;
    const float c3xyz = 2.890611442640554f;
    f(9, -c33 * y * (3.0f * xx - yy), make_vec(-6.0f * c33 * x * y, -3.0f * c33 * (xx - yy), 0.0f));
    f(10, c3xyz * x * y * z, make_vec(c3xyz * y * z, c3xyz * x * z, c3xyz * x * y));
    f(11, -c31 * y * (4.0f * zz - xx - yy),
      make_vec(2.0f * c31 * x * y, -c31 * (4.0f * zz - xx - 3.0f * yy), -8.0f * c31 * y * z));
    f(12, c30 * z * (2.0f * zz - 3.0f * xx - 3.0f * yy),
      make_vec(-6.0f * c30 * x * z, -6.0f * c30 * y * z, c30 * (6.0f * zz - 3.0f * xx - 3.0f * yy)));
    f(13, -c31 * x * (4.0f * zz - xx - yy),
      make_vec(-c31 * (4.0f * zz - 3.0f * xx - yy), 2.0f * c31 * x * y, -8.0f * c31 * x * z));
    f(14, c32 * z * (xx - yy), make_vec(2.0f * c32 * x * z, -2.0f * c32 * y * z, c32 * (xx - yy)));
    f(15, -c33 * x * (xx - 3.0f * yy), make_vec(-3.0f * c33 * (xx - yy), 6.0f * c33 * x * y, 0.0f));
}

// Colour in a direction (a unit vector). coefficient(k) returns the three channels of coefficient k.
template <class F>
__device__ __forceinline__ vfloat3 sh_color(int degree, vfloat3 direction, F coefficient)
{
    const vfloat3 sh0 = coefficient(0);
    vfloat3 color = make_vec(0.5f + SH_C0 * sh0.x, 0.5f + SH_C0 * sh0.y, 0.5f + SH_C0 * sh0.z);
    sh_visit(degree, direction, [&](int k, vfloat y, vfloat3) { color = add(color, scale(y, coefficient(k))); });
    return color;
}

// Basis value Y_k, for kernels that need a part of them.
__device__ __forceinline__ vfloat sh_basis(int k, vfloat3 d)
{
    const vfloat x = d.x, y = d.y, z = d.z, xx = x * x, yy = y * y, zz = z * z;
    switch (k) {
        case 0: return SH_C0;
        case 1: return -0.4886025119029199f * y;
        case 2: return 0.4886025119029199f * z;
        case 3: return -0.4886025119029199f * x;
        case 4: return 1.0925484305920792f * x * y;
        case 5: return -1.0925484305920792f * y * z;
        case 6: return 0.31539156525252005f * (2.0f * zz - xx - yy);
        case 7: return -1.0925484305920792f * x * z;
        case 8: return 0.5462742152960396f * (xx - yy);
        case 9: return -0.5900435899266435f * y * (3.0f * xx - yy);
        case 10: return 2.890611442640554f * x * y * z;
        case 11: return -0.4570457994644658f * y * (4.0f * zz - xx - yy);
        case 12: return 0.3731763325901154f * z * (2.0f * zz - 3.0f * xx - 3.0f * yy);
        case 13: return -0.4570457994644658f * x * (4.0f * zz - xx - yy);
        case 14: return 1.445305721320277f * z * (xx - yy);
        default: return -0.5900435899266435f * x * (xx - 3.0f * yy);
    }
}
