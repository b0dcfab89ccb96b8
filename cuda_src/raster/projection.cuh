// Forward projection of one splat into one camera, used by project and project_backward (EWA splatting, Zwicker et al. 2001).
#pragma once
#include "common.cuh"
#include "vectors.cuh"

// Radial distortion: a point with slopes s = (x/z, y/z) is seen at d s, d = 1 + k1 |s|^2 + k2 |s|^4 (Brown 1966; COLMAP's RADIAL
// model). Only with RADIAL_DISTORTION.

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

// px^2 added to the diagonal of the 2D covariance, so that a splat covers at least one pixel or so. 3DGS and other viewers use 0.3.
// With antialiasing it is 0.1, and the opacity is scaled down (`compensation`; 2D Mip filter, Yu et al. 2024, sec. 5.2).
__device__ __forceinline__ float dilation(int antialias) { return antialias ? 0.1f : 0.3f; }

// Geometric parameters of a splat.
struct Gaussian { vfloat3 mean, scale; vfloat4 quat; vfloat opacity; };

// Loads the splats in m. p: the lane's own element of the first plane.
__device__ __forceinline__ Gaussian load_gaussian(const float* __restrict__ p /* [rows, stride] */, size_t stride, vbool m)
{
    Gaussian g;
    g.mean = load_vec(p, stride, m);
    const vfloat3 log_scale = load_vec(p + ROW_LOG_SCALE * stride, stride, m);
    g.scale = make_vec(expf(log_scale.x), expf(log_scale.y), expf(log_scale.z));
    const float* q = p + ROW_QUAT * stride;
    g.quat.x = load_own(q, m); g.quat.y = load_own(q + stride, m);
    g.quat.z = load_own(q + 2 * stride, m); g.quat.w = load_own(q + 3 * stride, m);
    g.opacity = sigmoid(load_own(p + ROW_OPACITY * stride, m));
    return g;
}

struct Projected {
    vfloat3 t;                      // mean in camera coordinates
    vfloat tx, ty;                  // x/z and y/z, clamped to the image plus a margin of 15 % of its size
    Distortion distortion;          // at (tx, ty); only with RADIAL_DISTORTION
    Mat3 r, m;                      // rotation R of the splat; M = R S, S = diag(scale)
    vfloat3 u0, u1;                 // rows of J W
    vfloat3 v0, v1;                 // rows of V = J W R S: the 2D covariance is V V^T
    vfloat inv_quat_norm;
    float dilation;                 // dilation of the 2D covariance, px^2
    vfloat a, b, c;                 // 2D covariance [a b; b c] after dilation, px^2
    vfloat det0, det;               // its determinants before and after dilation
};

__device__ __forceinline__ Mat3 world_rotation(const Camera& k)
{
    Mat3 w;
    w.r0 = make_vec(k.w2c[0], k.w2c[1], k.w2c[2]);
    w.r1 = make_vec(k.w2c[4], k.w2c[5], k.w2c[6]);
    w.r2 = make_vec(k.w2c[8], k.w2c[9], k.w2c[10]);
    return w;
}

__device__ __forceinline__ vfloat3 to_camera(const Camera& k, vfloat3 mean)
{
    return add(mul(world_rotation(k), mean), make_vec(k.w2c[3], k.w2c[7], k.w2c[11]));
}

// Rows of J W of the pinhole camera, at the clamped slopes.
__device__ __forceinline__ void pinhole_rows(const Projected& p, const Mat3& w, const Camera& k, vfloat inv_z, vfloat3& u0, vfloat3& u1)
{
    u0 = scale(k.fx * inv_z, sub(w.r0, scale(p.tx, w.r2)));
    u1 = scale(k.fy * inv_z, sub(w.r1, scale(p.ty, w.r2)));
}

__device__ __forceinline__ Projected project_gaussian(const Gaussian& g, const Camera& k, int antialias)
{
    Projected p;
    const Mat3 w = world_rotation(k);
    p.t = to_camera(k, g.mean);
    const vfloat inv_z = 1.0f / p.t.z;
    const float margin_x = 0.15f * k.width, margin_y = 0.15f * k.height;
    p.tx = fminf(fmaxf(p.t.x * inv_z, -(k.cx + margin_x) / k.fx), (k.width + margin_x - k.cx) / k.fx);
    p.ty = fminf(fmaxf(p.t.y * inv_z, -(k.cy + margin_y) / k.fy), (k.height + margin_y - k.cy) / k.fy);
    pinhole_rows(p, w, k, inv_z, p.u0, p.u1);
    if (RADIAL) {
        p.distortion = distortion_at(k, p.tx, p.ty);
        distort_rows(p.distortion, k, p.u0, p.u1);
    }

    p.inv_quat_norm = inv_norm(g.quat);
    p.r = unit_rotation(g.quat);
    p.m.r0 = make_vec(p.r.r0.x * g.scale.x, p.r.r0.y * g.scale.y, p.r.r0.z * g.scale.z);
    p.m.r1 = make_vec(p.r.r1.x * g.scale.x, p.r.r1.y * g.scale.y, p.r.r1.z * g.scale.z);
    p.m.r2 = make_vec(p.r.r2.x * g.scale.x, p.r.r2.y * g.scale.y, p.r.r2.z * g.scale.z);
    p.v0 = mul_transposed(p.m, p.u0);
    p.v1 = mul_transposed(p.m, p.u1);

    const vfloat a0 = dot(p.v0, p.v0), c0 = dot(p.v1, p.v1);
    const vfloat3 normal = cross(p.v0, p.v1);
    p.dilation = dilation(antialias);
    p.a = a0 + p.dilation; p.b = dot(p.v0, p.v1); p.c = c0 + p.dilation;
    p.det0 = dot(normal, normal);   // |v0 x v1|^2: nothing cancels, even for a needle
    p.det = p.det0 + p.dilation * (a0 + c0) + p.dilation * p.dilation;
    return p;
}

// Factor of the opacity after dilation: 1, or with antialiasing sqrt(det0 / det), which keeps the splat's energy (Mip-Splatting, Yu et al.
// 2024, sec. 5.2).
template <class P>
__device__ __forceinline__ vfloat compensation(const P& p, int antialias)
{
    if (!antialias) return 1.0f;
    return sqrtf(p.det0 / p.det);
}

// 3D smoothing filter: no splat is finer than the sampling of the training views (Mip-Splatting, Yu et al. 2024, sec. 5.1). It adds
// sigma^2 I to a splat's covariance and lowers the opacity so that the integral of the Gaussian stays the same.
struct Smooth3D {
    vfloat3 share;                  // raw variance / smoothed variance, per axis
    vfloat rest;                    // 1 - raw opacity
};

// Smooths a raw splat. sigma: standard deviation of the filter, world units.
__device__ __forceinline__ Smooth3D smooth_3d(Gaussian& g, vfloat sigma)
{
    const vfloat3 raw = mul_elements(g.scale, g.scale);
    const vfloat3 sum = add(raw, make_vec(sigma * sigma, sigma * sigma, sigma * sigma));
    Smooth3D s;
    s.share = make_vec(raw.x / sum.x, raw.y / sum.y, raw.z / sum.z);
    s.rest = 1.0f - g.opacity;
    g.scale = make_vec(sqrtf(sum.x), sqrtf(sum.y), sqrtf(sum.z));
    g.opacity *= sqrtf(s.share.x * s.share.y * s.share.z);
    return s;
}
