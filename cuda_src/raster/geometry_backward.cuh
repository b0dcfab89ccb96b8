// From the sums of one projected splat to the gradients of its raw parameters; used by project_backward and pose_backward.
// Chain rule of EWA splatting through cov2d = V V^T + dilation I with V = J W R S (see projection.cuh).
//
// With d = pixel - mean2d and the conic Q = cov2d^-1, a pixel's alpha is exp(ln opacity + power), power = -1/2 d^T Q d. Power is a
// quadratic form in d. So three sums over pixels suffice, the moments S0, S1, S2 of g = dL/dpower: g times 1, d and d d^T.
//     dL/d opacity = S0 / opacity        dL/d mean2d = Q S1        dL/dQ = -1/2 S2
//     dL/d cov2d   = -Q dL/dQ Q = 1/2 Q S2 Q                       dL/dV = 2 dL/d cov2d V = Q S2 Q V
#pragma once
#include "raster/projection.cuh"
#include "raster/sh.cuh"
#include "raster/splat_sums.cuh"

// Gradient of the viewing ray (mean - camera centre) from that of the colour. params: the lane's own element of the first plane.
__device__ __forceinline__ vfloat3 ray_backward(
    const float* __restrict__ params /* [rows, stride] */, size_t stride, vbool m, int degree, vfloat3 ray, vfloat inv_length,
    vfloat3 d_color)
{
    const vfloat3 direction = scale(inv_length, ray);
    vfloat3 d_direction = make_vec(0.0f, 0.0f, 0.0f);
    sh_visit(degree, direction, [&](int k, vfloat, vfloat3 d_y) {
        const vfloat3 coefficient = load_vec(params + (size_t)(ROW_SHN + 3 * (k - 1)) * stride, stride, m);
        d_direction = add(d_direction, scale(dot(coefficient, d_color), d_y));
    });
    return scale(inv_length, sub(d_direction, scale(dot(direction, d_direction), direction)));
}

// Gradient of the raw quaternion; d: gradient of its rotation matrix.
__device__ __forceinline__ vfloat4 quat_backward(vfloat4 raw, vfloat inv_norm, const Mat3& d)
{
    const vfloat w = raw.x * inv_norm, x = raw.y * inv_norm, y = raw.z * inv_norm, z = raw.w * inv_norm;
    vfloat4 g;
    g.x = 2.0f * (x * (d.r2.y - d.r1.z) + y * (d.r0.z - d.r2.x) + z * (d.r1.x - d.r0.y));
    g.y = 2.0f * (y * (d.r0.y + d.r1.x) + z * (d.r0.z + d.r2.x) + w * (d.r2.y - d.r1.z) - 2.0f * x * (d.r1.y + d.r2.z));
    g.z = 2.0f * (x * (d.r0.y + d.r1.x) + z * (d.r1.z + d.r2.y) + w * (d.r0.z - d.r2.x) - 2.0f * y * (d.r0.x + d.r2.z));
    g.w = 2.0f * (x * (d.r0.z + d.r2.x) + y * (d.r1.z + d.r2.y) + w * (d.r1.x - d.r0.y) - 2.0f * z * (d.r0.x + d.r1.y));
    const vfloat along = w * g.x + x * g.y + y * g.z + z * g.w;
    g.x = (g.x - w * along) * inv_norm; g.y = (g.y - x * along) * inv_norm;
    g.z = (g.z - y * along) * inv_norm; g.w = (g.w - z * along) * inv_norm;
    return g;
}

struct GeometryGradient {
    vfloat3 mean, log_scale;
    vfloat4 quat;
    vfloat logit_opacity, d_x, d_y;
    vfloat3 rotation;                   // gradient of a rotation vector of the camera about its centre, in camera axes
    vfloat distortion;                  // factor d of projection.cuh; only with RADIAL_DISTORTION
    vfloat k1, k2;                      // gradients of the camera's coefficients; only with RADIAL_DISTORTION
#ifdef LENS
    vfloat focal;                       // gradient of the log of both focal lengths
#endif
};

// dL/d colour before clamping; `color` is 0 in clamped channels.
__device__ __forceinline__ vfloat3 unclamped(const SplatSums& s, vfloat4 color)
{
    const vfloat zero = 0.0f;
    return make_vec(select(color.x > zero, s.red, zero), select(color.y > zero, s.green, zero), select(color.z > zero, s.blue, zero));
}

#ifdef LENS
#include "raster/unscented_backward.cuh"
#else

__device__ __forceinline__ GeometryGradient geometry_backward(const Gaussian& g, const Camera& k, const SplatSums& s, int antialias)
{
    const Projected p = project_gaussian(g, k, antialias);
    const vfloat inv_det = 1.0f / p.det, A = p.c * inv_det, B = -p.b * inv_det, C = p.a * inv_det;
    const vfloat ratio = compensation(p, antialias), opacity = g.opacity * ratio;
    GeometryGradient out;
    out.d_x = A * s.gx + B * s.gy;
    out.d_y = B * s.gx + C * s.gy;

    const vfloat d_opacity = s.g / opacity;
    out.logit_opacity = d_opacity * ratio * g.opacity * (1.0f - g.opacity);

    // Q V as cross products, because along a needle's long axis the products of Q and V cancel. The gradients of log scales, the
    // diagonal of V^T dL/dV, then become quadratic forms, in which nothing cancels.
    const vfloat3 normal = cross(p.v0, p.v1), x0 = cross(p.v1, normal), x1 = cross(normal, p.v0);    // adjugate(V V^T) V
    const vfloat3 w0 = scale(inv_det, add(x0, scale(p.dilation, p.v0))), w1 = scale(inv_det, add(x1, scale(p.dilation, p.v1)));
    const vfloat3 y0 = add(scale(s.gxx, w0), scale(s.gxy, w1)), y1 = add(scale(s.gxy, w0), scale(s.gyy, w1));
    vfloat3 d_v0 = add(scale(A, y0), scale(B, y1)), d_v1 = add(scale(B, y0), scale(C, y1));
    out.log_scale = add(mul_elements(w0, y0), mul_elements(w1, y1));
    const vbool solid = p.det0 > 1e-12f;
    if (antialias && some(solid)) {             // d ln(det0 / det) / dV = 2 (inverse of the undilated covariance - Q) V
        const vfloat inv_det0 = 1.0f / p.det0;
        const vfloat3 e0 = scale(s.g, sub(scale(inv_det0, x0), w0)), e1 = scale(s.g, sub(scale(inv_det0, x1), w1));
        d_v0 = select(solid, add(d_v0, e0), d_v0);
        d_v1 = select(solid, add(d_v1, e1), d_v1);
        out.log_scale = select(solid, add(out.log_scale, add(mul_elements(p.v0, e0), mul_elements(p.v1, e1))), out.log_scale);
    }

    Mat3 d_m;                                           // V = U M
    d_m.r0 = add(scale(p.u0.x, d_v0), scale(p.u1.x, d_v1));
    d_m.r1 = add(scale(p.u0.y, d_v0), scale(p.u1.y, d_v1));
    d_m.r2 = add(scale(p.u0.z, d_v0), scale(p.u1.z, d_v1));
    vfloat3 d_u0 = mul(p.m, d_v0), d_u1 = mul(p.m, d_v1);

    Mat3 d_r;
    d_r.r0 = make_vec(d_m.r0.x * g.scale.x, d_m.r0.y * g.scale.y, d_m.r0.z * g.scale.z);
    d_r.r1 = make_vec(d_m.r1.x * g.scale.x, d_m.r1.y * g.scale.y, d_m.r1.z * g.scale.z);
    d_r.r2 = make_vec(d_m.r2.x * g.scale.x, d_m.r2.y * g.scale.y, d_m.r2.z * g.scale.z);
    out.quat = quat_backward(g.quat, p.inv_quat_norm, d_r);

    // U = J W; the rows of J are (fx/z) (1, 0, -tx) and (fy/z) (0, 1, -ty).
    const Mat3 w = world_rotation(k);
    const vfloat inv_z = 1.0f / p.t.z, sx = k.fx * inv_z, sy = k.fy * inv_z;
    vfloat d_mean_x = k.fx * out.d_x, d_mean_y = k.fy * out.d_y;        // gradients of x/z and y/z through mean2d
    DistortionGradient d_lens = {};
    if (RADIAL) {
        vfloat3 u0, u1;
        pinhole_rows(p, w, k, inv_z, u0, u1);
        const vfloat d_d = inv_z * (d_mean_x * p.t.x + d_mean_y * p.t.y);
        d_lens = distortion_backward(p.distortion, k, p.tx, p.ty, u0, u1, d_d, d_u0, d_u1);
        d_mean_x = p.distortion.d * d_mean_x;
        d_mean_y = p.distortion.d * d_mean_y;
    }
    const vfloat d_j00 = dot(d_u0, w.r0), d_j02 = dot(d_u0, w.r2), d_j11 = dot(d_u1, w.r1), d_j12 = dot(d_u1, w.r2);
    vfloat3 d_t;
    d_t.z = -inv_z * (sx * (d_j00 - p.tx * d_j02) + sy * (d_j11 - p.ty * d_j12));
    vfloat d_tx = -sx * d_j02, d_ty = -sy * d_j12;
    if (RADIAL) { d_tx += d_lens.sx; d_ty += d_lens.sy; out.k1 = d_lens.k1; out.k2 = d_lens.k2; out.distortion = p.distortion.d; }
    d_tx = select(p.tx == p.t.x * inv_z, d_tx, vfloat(0.0f));
    d_ty = select(p.ty == p.t.y * inv_z, d_ty, vfloat(0.0f));
    const vfloat d_ratio_x = d_tx + d_mean_x, d_ratio_y = d_ty + d_mean_y;       // gradients of x/z and y/z through J and mean2d
    d_t.x = d_ratio_x * inv_z;
    d_t.y = d_ratio_y * inv_z;
    d_t.z -= inv_z * inv_z * (d_ratio_x * p.t.x + d_ratio_y * p.t.y);
    out.mean = mul_transposed(w, d_t);

    // A rotation by w moves t by w x t and the columns of W by w x column. So a row u = W^T j of U moves by -W^T (w x j).
    const vfloat3 j0 = make_vec(sx, 0.0f, -sx * p.tx), j1 = make_vec(0.0f, sy, -sy * p.ty);
    out.rotation = add(cross(p.t, d_t), add(cross(mul(w, d_u0), j0), cross(mul(w, d_u1), j1)));
    return out;
}

#endif

// Turns gradients of the smoothed splat into those of the raw one. d_log_opacity: gradient of the log of the opacity, the same for both.
__device__ __forceinline__ void smooth_3d_backward(const Smooth3D& s, vfloat d_log_opacity, GeometryGradient& d)
{
    const vfloat3 others = make_vec(1.0f - s.share.x, 1.0f - s.share.y, 1.0f - s.share.z);
    d.log_scale = add(mul_elements(s.share, d.log_scale), scale(d_log_opacity, others));
    d.logit_opacity = d_log_opacity * s.rest;
}
