// Forward projection of one splat through a lens by the unscented transform (3DGUT, Wu et al. 2025, sec. 3.2), with alpha = 1, beta = 2,
// kappa = 0: seven sigma points, the mean t and t +- a_k with a_k = sqrt(3) s_k (axis k). From their images x_0 and x_k+-:
//     h_k = (x_k+ - x_k-) / 2        e_k = (x_k+ + x_k-) / 2 - x_0        e = 1/3 sum e_k
//     mean        x_0 + e
//     covariance  e e^T + 1/3 sum (h_k h_k^T + e_k e_k^T) = V V^T
// V has the columns h_k / sqrt(3) and (e_k + (sqrt(2) - 1) e) / sqrt(3). With it, determinants and gradients are sums of squares, in which
// nothing cancels.
#pragma once
#include "lens/lens.cuh"
#include "raster/projection.cuh"

#define COLUMNS 6                   // of V: 0 to 2: h_k, 3 to 5: e_k
#define ROOT3 1.7320508f
#define ROOT2 1.4142136f

struct Unscented {
    vfloat3 t;                      // mean in camera coordinates
    vfloat3 axis[3];                // a_k
    vfloat x, y;                    // mean of the images, px from the principal point
    Place v[COLUMNS];
    vfloat a, b, c;                 // 2D covariance [a b; b c] after dilation, px^2
    float dilation;                 // px^2
    vfloat det0, det;               // its determinants before and after dilation
};

// Appends to a queue of three. Loops over axes rotate such queues instead of being unrolled: then the formulas of a lens are in a kernel
// once, and registers hold the intermediate values of one axis.
template <class T>
__device__ __forceinline__ void push(T* queue /* [3] */, T last) { queue[0] = queue[1]; queue[1] = queue[2]; queue[2] = last; }

__device__ __forceinline__ Place add(Place a, Place b) { Place p = {a.x + b.x, a.y + b.y}; return p; }
__device__ __forceinline__ Place sub(Place a, Place b) { Place p = {a.x - b.x, a.y - b.y}; return p; }
__device__ __forceinline__ Place scale(vfloat s, Place a) { Place p = {s * a.x, s * a.y}; return p; }
__device__ __forceinline__ vfloat area(Place a, Place b) { return a.x * b.y - a.y * b.x; }

// Whether the ellipsoid through the sigma points avoids the camera and the axis behind it. A splat around the camera or the axis is seen
// on all sides and has no outline in the picture.
__device__ __forceinline__ vbool has_outline(const LensModel& lens, const Unscented& p)
{
    // Squared distance of the point (0, 0, -s) from the mean, in units of the ellipsoid: center + 2 slope s + curvature s^2.
    vfloat center = 0.0f, slope = 0.0f, curvature = 0.0f;
#pragma unroll
    for (int k = 0; k < 3; ++k) {
        const vfloat inv_square = 1.0f / dot(p.axis[k], p.axis[k]), u = dot(p.t, p.axis[k]) * inv_square, v = p.axis[k].z * inv_square;
        center += u * u; slope += u * v; curvature += v * v;
    }
    const vfloat nearest = center - select(slope < 0.0f, slope * slope / curvature, vfloat(0.0f));
    return (lens.family == FAMILY_EQUIRECTANGULAR ? center : nearest) > 1.0f;
}

__device__ __forceinline__ Unscented project_through_lens(const Gaussian& g, const Camera& k, int antialias)
{
    const LensModel& lens = lens_of(k);
    const float period = period_of(lens, k), inv_period = period > 0.0f ? 1.0f / period : 0.0f;
    const Mat3 w = world_rotation(k), r = unit_rotation(g.quat);
    Unscented p;
    p.t = to_camera(k, g.mean);
    p.axis[0] = scale(ROOT3 * g.scale.x, mul(w, make_vec(r.r0.x, r.r1.x, r.r2.x)));
    p.axis[1] = scale(ROOT3 * g.scale.y, mul(w, make_vec(r.r0.y, r.r1.y, r.r2.y)));
    p.axis[2] = scale(ROOT3 * g.scale.z, mul(w, make_vec(r.r0.z, r.r1.z, r.r2.z)));

    const Place center = lens_place(lens, k, p.t);
    Place sum = {0.0f, 0.0f};                           // of e_k
#pragma unroll 1
    for (int i = 0; i < 3; ++i) {
        const vfloat3 axis = p.axis[0];
        Place plus = sub(lens_place(lens, k, add(p.t, axis)), center), minus = sub(lens_place(lens, k, sub(p.t, axis)), center);
        if (period > 0.0f) {                            // the shorter way around
            plus.x -= period * floorf(plus.x * inv_period + 0.5f);
            minus.x -= period * floorf(minus.x * inv_period + 0.5f);
        }
        const Place even = scale(0.5f, add(plus, minus));
        sum = add(sum, even);
        push(p.axis, axis);
        push(p.v, scale(0.5f / ROOT3, sub(plus, minus)));
        push(p.v + 3, scale(1.0f / ROOT3, even));
    }
    p.x = center.x + sum.x * (1.0f / 3.0f); p.y = center.y + sum.y * (1.0f / 3.0f);
    for (int i = 3; i < COLUMNS; ++i) p.v[i] = add(p.v[i], scale((ROOT2 - 1.0f) / (3.0f * ROOT3), sum));

    vfloat a0 = 0.0f, b0 = 0.0f, c0 = 0.0f;
    p.det0 = 0.0f;
#pragma unroll
    for (int i = 0; i < COLUMNS; ++i) {
        a0 += p.v[i].x * p.v[i].x; b0 += p.v[i].x * p.v[i].y; c0 += p.v[i].y * p.v[i].y;
#pragma unroll
        for (int j = 0; j < i; ++j) { const vfloat between = area(p.v[j], p.v[i]); p.det0 += between * between; }
    }
    p.dilation = dilation(antialias);
    p.a = a0 + p.dilation; p.b = b0; p.c = c0 + p.dilation;
    p.det = p.det0 + p.dilation * (a0 + c0) + p.dilation * p.dilation;
    return p;
}
