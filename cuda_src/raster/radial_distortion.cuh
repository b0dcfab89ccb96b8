// Radial distortion of a view that is not quite a pinhole's: a point of slopes s = (x/z, y/z) is seen at d s, where
// d = 1 + k1 |s|^2 + k2 |s|^4 (Brown 1966; COLMAP's RADIAL model). Compiled with RADIAL_DISTORTION only.
#pragma once
#include "vectors.cuh"

#ifdef RADIAL_DISTORTION
constexpr bool RADIAL = true;
#else
constexpr bool RADIAL = false;
#endif

// At slopes s, clamped as those of the projection: a splat far outside of the image must not be folded back into it.
struct Distortion {
    vfloat d, slope;                // d, and its derivative by |s|^2
    vfloat xx, xy, yy;              // Jacobian of d s by s with d as a function of s: d I + 2 slope s s^T
};

__device__ __forceinline__ Distortion distortion_at(const Camera& k, vfloat sx, vfloat sy)
{
    const vfloat square = sx * sx + sy * sy;
    Distortion r;
    r.d = 1.0f + square * (k.k1 + k.k2 * square);
    r.slope = k.k1 + 2.0f * k.k2 * square;
    r.xx = r.d + 2.0f * r.slope * sx * sx;
    r.xy = 2.0f * r.slope * sx * sy;
    r.yy = r.d + 2.0f * r.slope * sy * sy;
    return r;
}

// Rows of J W of the pinhole camera become those of the distorted one.
__device__ __forceinline__ void distort_rows(const Distortion& r, const Camera& k, vfloat3& u0, vfloat3& u1)
{
    const float aspect = k.fx / k.fy;
    const vfloat3 pinhole0 = u0;
    u0 = add(scale(r.xx, u0), scale(aspect * r.xy, u1));
    u1 = add(scale(r.xy / aspect, pinhole0), scale(r.yy, u1));
}

struct DistortionGradient { vfloat sx, sy, k1, k2; };

// From the gradients of the distorted rows to those of the pinhole's, u0 and u1, in place; and, with that of d by the projected mean,
// to those of the clamped slopes and of the coefficients.
__device__ __forceinline__ DistortionGradient distortion_backward(
    const Distortion& r, const Camera& k, vfloat sx, vfloat sy, vfloat3 u0, vfloat3 u1, vfloat d_d, vfloat3& d_u0, vfloat3& d_u1)
{
    const float aspect = k.fx / k.fy;
    const vfloat d_xx = dot(u0, d_u0), d_yy = dot(u1, d_u1), d_xy = aspect * dot(u1, d_u0) + dot(u0, d_u1) / aspect;
    const vfloat3 seen0 = d_u0;
    d_u0 = add(scale(r.xx, d_u0), scale(r.xy / aspect, d_u1));
    d_u1 = add(scale(aspect * r.xy, seen0), scale(r.yy, d_u1));

    const vfloat square = sx * sx + sy * sy;
    const vfloat by_d = d_d + d_xx + d_yy, by_slope = 2.0f * (sx * sx * d_xx + sx * sy * d_xy + sy * sy * d_yy);
    const vfloat by_square = by_d * r.slope + 2.0f * k.k2 * by_slope;
    DistortionGradient g;
    g.sx = 2.0f * (sx * by_square + r.slope * (2.0f * sx * d_xx + sy * d_xy));
    g.sy = 2.0f * (sy * by_square + r.slope * (sx * d_xy + 2.0f * sy * d_yy));
    g.k1 = square * by_d + by_slope;
    g.k2 = square * (square * by_d + 2.0f * by_slope);
    return g;
}
