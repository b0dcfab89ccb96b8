// Radial distortion: a point with slopes s = (x/z, y/z) is seen at d s, d = 1 + k1 |s|^2 + k2 |s|^4 (Brown 1966; COLMAP's RADIAL
// model). Only with RADIAL_DISTORTION.
#pragma once
#include "vectors.cuh"

#ifdef RADIAL_DISTORTION
constexpr bool RADIAL = true;
#else
constexpr bool RADIAL = false;
#endif

// Distortion at slopes s. These are clamped like those of the projection, so that no splat far outside the image is folded back into it.
struct Distortion {
    vfloat d, slope;                // d and its derivative with respect to |s|^2
    vfloat xx, xy, yy;              // Jacobian of d s with respect to s: d I + 2 slope s s^T
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

// Turns the rows of J W of the pinhole camera into those of the distorted camera.
__device__ __forceinline__ void distort_rows(const Distortion& r, const Camera& k, vfloat3& u0, vfloat3& u1)
{
    const float aspect = k.fx / k.fy;
    const vfloat3 pinhole0 = u0;
    u0 = add(scale(r.xx, u0), scale(aspect * r.xy, u1));
    u1 = add(scale(r.xy / aspect, pinhole0), scale(r.yy, u1));
}

struct DistortionGradient { vfloat sx, sy, k1, k2; };

// In: gradients of the distorted rows (d_u0, d_u1) and of d through the projected mean (d_d). Out: d_u0, d_u1 become gradients of the
// pinhole rows u0, u1; returns gradients of the clamped slopes and of k1, k2.
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
