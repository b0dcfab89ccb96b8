// geometry_backward for cameras with a lens: the chain rule of unscented.cuh, from the same sums as in geometry_backward.cuh.
#pragma once
#include "raster/unscented.cuh"

// In: sums of a splat. Out: gradients of the columns of V (d_vx, d_vy).
__device__ __forceinline__ void columns_backward(
    const Unscented& p, const SplatSums& s, int antialias, vfloat (&d_vx)[COLUMNS], vfloat (&d_vy)[COLUMNS])
{
    const vfloat inv_det = 1.0f / p.det, A = p.c * inv_det, B = -p.b * inv_det, C = p.a * inv_det;
    const vbool solid = p.det0 > 1e-12f;
    const vfloat inv_det0 = select(solid, 1.0f / p.det0, vfloat(0.0f)), compensated = select(solid, s.g, vfloat(0.0f));
#pragma unroll
    for (int i = 0; i < COLUMNS; ++i) {
        vfloat x = 0.0f, y = 0.0f;                      // adjugate(V V^T) v_i
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) {
            const vfloat area = p.vx[j] * p.vy[i] - p.vy[j] * p.vx[i];
            x -= p.vy[j] * area; y += p.vx[j] * area;
        }
        const vfloat wx = inv_det * (x + p.dilation * p.vx[i]), wy = inv_det * (y + p.dilation * p.vy[i]);     // Q v_i
        const vfloat yx = s.gxx * wx + s.gxy * wy, yy = s.gxy * wx + s.gyy * wy;
        d_vx[i] = A * yx + B * yy; d_vy[i] = B * yx + C * yy;
        if (antialias) { d_vx[i] += compensated * (inv_det0 * x - wx); d_vy[i] += compensated * (inv_det0 * y - wy); }
    }
}

__device__ __forceinline__ GeometryGradient geometry_backward(const Gaussian& g, const Camera& k, const SplatSums& s, int antialias)
{
    const LensModel& lens = lens_of(k);
    const Unscented p = project_through_lens(g, k, antialias);
    const vfloat inv_det = 1.0f / p.det, ratio = compensation(p, antialias), opacity = g.opacity * ratio;
    GeometryGradient out;
    out.d_x = inv_det * (p.c * s.gx - p.b * s.gy);
    out.d_y = inv_det * (p.a * s.gy - p.b * s.gx);
    out.logit_opacity = s.g / opacity * ratio * g.opacity * (1.0f - g.opacity);

    vfloat d_vx[COLUMNS], d_vy[COLUMNS];
    columns_backward(p, s, antialias, d_vx, d_vy);
    out.focal = out.d_x * p.x + out.d_y * p.y;          // the whole picture grows with the focal length
    Place d_mean = {out.d_x - ROOT2 * d_vx[0], out.d_y - ROOT2 * d_vy[0]};
#pragma unroll
    for (int i = 0; i < COLUMNS; ++i) out.focal += p.vx[i] * d_vx[i] + p.vy[i] * d_vy[i];
#pragma unroll
    for (int i = 4; i < COLUMNS; ++i) { d_mean.x -= (1.0f / ROOT3) * d_vx[i]; d_mean.y -= (1.0f / ROOT3) * d_vy[i]; }

    const Place d_center = {ROOT2 * d_vx[0], ROOT2 * d_vy[0]};
    vfloat3 d_t = lens_backward(lens, k, p.t, d_center), d_axis[3];
    out.rotation = make_vec(0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int i = 0; i < 3; ++i) {
        const vfloat half = 0.5f / ROOT3, even_x = half * d_vx[4 + i] + (1.0f / 6.0f) * d_mean.x;
        const vfloat even_y = half * d_vy[4 + i] + (1.0f / 6.0f) * d_mean.y, odd_x = half * d_vx[1 + i], odd_y = half * d_vy[1 + i];
        const Place d_plus = {even_x + odd_x, even_y + odd_y}, d_minus = {even_x - odd_x, even_y - odd_y};
        const vfloat3 plus = lens_backward(lens, k, add(p.t, p.axis[i]), d_plus);
        const vfloat3 minus = lens_backward(lens, k, sub(p.t, p.axis[i]), d_minus);
        d_t = add(d_t, add(plus, minus));
        d_axis[i] = sub(plus, minus);
        out.rotation = add(out.rotation, cross(p.axis[i], d_axis[i]));
    }
    out.rotation = add(out.rotation, cross(p.t, d_t));
    out.log_scale = make_vec(dot(p.axis[0], d_axis[0]), dot(p.axis[1], d_axis[1]), dot(p.axis[2], d_axis[2]));

    const Mat3 w = world_rotation(k);
    out.mean = mul_transposed(w, d_t);
    const vfloat3 d0 = scale(ROOT3 * g.scale.x, mul_transposed(w, d_axis[0]));      // columns of the gradient of R
    const vfloat3 d1 = scale(ROOT3 * g.scale.y, mul_transposed(w, d_axis[1]));
    const vfloat3 d2 = scale(ROOT3 * g.scale.z, mul_transposed(w, d_axis[2]));
    const Mat3 d_r = {make_vec(d0.x, d1.x, d2.x), make_vec(d0.y, d1.y, d2.y), make_vec(d0.z, d1.z, d2.z)};
    out.quat = quat_backward(g.quat, inv_norm(g.quat), d_r);
    return out;
}
