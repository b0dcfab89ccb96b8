// Forward projection of one splat through a lens by the unscented transform (3DGUT, Wu et al. 2025, sec. 3.2), with alpha = 1, beta = 2,
// kappa = 0: seven sigma points, the mean t and t +- a_k with a_k = sqrt(3) s_k (axis k). From their images x_0 and x_k+-:
//     mean        m = 1/6 sum (x_k+ + x_k-)
//     covariance      2 (x_0 - m)(x_0 - m)^T + 1/6 sum (x_k+- - m)(x_k+- - m)^T = V V^T
// V has the columns sqrt(2) (x_0 - m), h_k / sqrt(3) and c_k / sqrt(3), with h_k = (x_k+ - x_k-) / 2 and c_k = (x_k+ + x_k-) / 2 - m.
// With it, determinants and gradients are sums of squares, in which nothing cancels.
#pragma once
#include "lens/lens.cuh"
#include "raster/projection.cuh"

#define COLUMNS 7                   // of V: 0: mean, 1 to 3: h_k, 4 to 6: c_k
#define ROOT3 1.7320508f
#define ROOT2 1.4142136f

struct Unscented {
    vfloat3 t;                      // mean in camera coordinates
    vfloat3 axis[3];                // a_k
    vfloat x, y;                    // m, px from the principal point
    vfloat vx[COLUMNS], vy[COLUMNS];
    vfloat a, b, c;                 // 2D covariance [a b; b c] after dilation, px^2
    float dilation;                 // px^2
    vfloat det0, det;               // its determinants before and after dilation
};

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
    vfloat sum_x = 0.0f, sum_y = 0.0f;                  // of (x_k+ + x_k-) / 2, from the centre
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
        Place plus = lens_place(lens, k, add(p.t, p.axis[axis])), minus = lens_place(lens, k, sub(p.t, p.axis[axis]));
        plus.x -= center.x; plus.y -= center.y; minus.x -= center.x; minus.y -= center.y;
        if (period > 0.0f) {                            // the shorter way around
            plus.x -= period * floorf(plus.x * inv_period + 0.5f);
            minus.x -= period * floorf(minus.x * inv_period + 0.5f);
        }
        p.vx[1 + axis] = 0.5f * (plus.x - minus.x); p.vy[1 + axis] = 0.5f * (plus.y - minus.y);
        p.vx[4 + axis] = 0.5f * (plus.x + minus.x); p.vy[4 + axis] = 0.5f * (plus.y + minus.y);
        sum_x += p.vx[4 + axis]; sum_y += p.vy[4 + axis];
    }
    const vfloat shift_x = sum_x * (1.0f / 3.0f), shift_y = sum_y * (1.0f / 3.0f);
    p.x = center.x + shift_x; p.y = center.y + shift_y;
    p.vx[0] = -ROOT2 * shift_x; p.vy[0] = -ROOT2 * shift_y;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
        p.vx[1 + axis] *= 1.0f / ROOT3; p.vy[1 + axis] *= 1.0f / ROOT3;
        p.vx[4 + axis] = (p.vx[4 + axis] - shift_x) * (1.0f / ROOT3); p.vy[4 + axis] = (p.vy[4 + axis] - shift_y) * (1.0f / ROOT3);
    }

    vfloat a0 = 0.0f, b0 = 0.0f, c0 = 0.0f;
    p.det0 = 0.0f;
#pragma unroll
    for (int i = 0; i < COLUMNS; ++i) {
        a0 += p.vx[i] * p.vx[i]; b0 += p.vx[i] * p.vy[i]; c0 += p.vy[i] * p.vy[i];
#pragma unroll
        for (int j = 0; j < i; ++j) {
            const vfloat area = p.vx[j] * p.vy[i] - p.vy[j] * p.vx[i];
            p.det0 += area * area;
        }
    }
    p.dilation = dilation(antialias);
    p.a = a0 + p.dilation; p.b = b0; p.c = c0 + p.dilation;
    p.det = p.det0 + p.dilation * (a0 + c0) + p.dilation * p.dilation;
    return p;
}
