// geometry_backward for cameras with a lens: the chain rule of unscented.cuh, from the same sums as in geometry_backward.cuh.
#pragma once
#include "raster/unscented.cuh"

// dL/dV, a linear function of a column of V.
struct ColumnGradient {
    vfloat A, B, C;                     // conic
    vfloat inv_det, inv_det0;
    vfloat compensated;                 // sum for the compensation of the opacity, or 0
};

__device__ __forceinline__ ColumnGradient column_gradient(const Unscented& p, const SplatSums& s, int antialias)
{
    ColumnGradient d;
    const vbool solid = p.det0 > 1e-12f;
    d.inv_det = 1.0f / p.det; d.A = p.c * d.inv_det; d.B = -p.b * d.inv_det; d.C = p.a * d.inv_det;
    d.inv_det0 = 0.0f; d.compensated = 0.0f;
    if (antialias) {
        d.inv_det0 = select(solid, 1.0f / p.det0, vfloat(0.0f));
        d.compensated = select(solid, s.g, vfloat(0.0f));
    }
    return d;
}

__device__ __forceinline__ Place of_column(const ColumnGradient& d, const Unscented& p, const SplatSums& s, Place column)
{
    Place adjugate = {0.0f, 0.0f};      // adjugate(V V^T) v
#pragma unroll
    for (int j = 0; j < COLUMNS; ++j) {
        const vfloat between = area(p.v[j], column);
        adjugate.x -= p.v[j].y * between; adjugate.y += p.v[j].x * between;
    }
    const Place w = scale(d.inv_det, add(adjugate, scale(p.dilation, column)));     // Q v
    const vfloat yx = s.gxx * w.x + s.gxy * w.y, yy = s.gxy * w.x + s.gyy * w.y;
    Place out = {d.A * yx + d.B * yy, d.B * yx + d.C * yy};
    return add(out, scale(d.compensated, sub(scale(d.inv_det0, adjugate), w)));
}

__device__ __forceinline__ GeometryGradient geometry_backward(const Gaussian& g, const Camera& k, const SplatSums& s, int antialias)
{
    const LensModel& lens = lens_of(k);
    Unscented p = project_through_lens(g, k, antialias);
    const ColumnGradient d_column = column_gradient(p, s, antialias);
    const vfloat ratio = compensation(p, antialias), opacity = g.opacity * ratio;
    GeometryGradient out;
    out.d_x = d_column.A * s.gx + d_column.B * s.gy;
    out.d_y = d_column.B * s.gx + d_column.C * s.gy;
    out.logit_opacity = s.g / opacity * ratio * g.opacity * (1.0f - g.opacity);
    out.focal = out.d_x * p.x + out.d_y * p.y;          // the whole picture grows with the focal length
    out.rotation = out.log_scale = make_vec(0.0f, 0.0f, 0.0f);

    const Place sum = add(add(p.v[3], p.v[4]), p.v[5]);
    Place d_center = {0.0f, 0.0f};
    vfloat3 d_t = make_vec(0.0f, 0.0f, 0.0f);
#pragma unroll 1
    for (int i = 0; i < 3; ++i) {                       // replaces the axes by their gradients
        const vfloat3 axis = p.axis[0];
        const Place even_column = add(p.v[3], scale((ROOT2 - 1.0f) / 3.0f, sum));
        const Place d_even = scale(1.0f / ROOT3, of_column(d_column, p, s, even_column));
        const Place d_odd = scale(1.0f / ROOT3, of_column(d_column, p, s, p.v[0]));
        const Place h = scale(ROOT3, p.v[0]), e = sub(scale(ROOT3, p.v[3]), scale((ROOT2 - 1.0f) / (ROOT2 * ROOT3), sum));
        out.focal += h.x * d_odd.x + h.y * d_odd.y + e.x * d_even.x + e.y * d_even.y;
        d_center = sub(d_center, d_even);
        const Place d_plus = {0.5f * (d_even.x + d_odd.x) + (1.0f / 6.0f) * out.d_x, 0.5f * (d_even.y + d_odd.y) + (1.0f / 6.0f) * out.d_y};
        const vfloat3 plus = lens_backward(lens, k, add(p.t, axis), d_plus);
        const vfloat3 minus = lens_backward(lens, k, sub(p.t, axis), sub(d_plus, d_odd)), d_axis = sub(plus, minus);
        d_t = add(d_t, add(plus, minus));
        out.rotation = add(out.rotation, cross(axis, d_axis));
        out.log_scale = make_vec(out.log_scale.y, out.log_scale.z, dot(axis, d_axis));
        push(p.axis, d_axis);
        push(p.v, p.v[0]);
        push(p.v + 3, p.v[3]);
    }
    d_t = add(d_t, lens_backward(lens, k, p.t, d_center));
    out.rotation = add(out.rotation, cross(p.t, d_t));

    const Mat3 w = world_rotation(k);
    out.mean = mul_transposed(w, d_t);
    const vfloat3 d0 = scale(ROOT3 * g.scale.x, mul_transposed(w, p.axis[0]));      // columns of the gradient of R
    const vfloat3 d1 = scale(ROOT3 * g.scale.y, mul_transposed(w, p.axis[1]));
    const vfloat3 d2 = scale(ROOT3 * g.scale.z, mul_transposed(w, p.axis[2]));
    const Mat3 d_r = {make_vec(d0.x, d1.x, d2.x), make_vec(d0.y, d1.y, d2.y), make_vec(d0.z, d1.z, d2.z)};
    out.quat = quat_backward(g.quat, inv_norm(g.quat), d_r);
    return out;
}
