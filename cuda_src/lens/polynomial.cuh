// Radial, rational, tangential and thin-prism terms of COLMAP's and OpenCV's models.
// c: radial [6], rational [3], p1, p2, prism [4], skew, as in splat_cli/scene/lens/distortion.py.
#pragma once
#include "lens/place.cuh"

// The coefficients of a camera, read where they are used: the compiler would keep all of them in registers during a loop over points, and
// fewer warps would run.
struct Coefficients {
    const float* first;
    __device__ __forceinline__ float operator[](int k) const
    {
#ifdef SPLAT_CPU
        return first[k];
#else
        float value;
        asm volatile("ld.f32 %0, [%1];" : "=f"(value) : "l"(first + k));    // unlike a volatile variable, cached in L1
        return value;
#endif
    }
};

// Factor of the radius, and its derivative with respect to the squared radius.
struct RadialFactor { vfloat value, slope; };

__device__ __forceinline__ RadialFactor radial_factor(Coefficients c, vfloat r2)
{
    vfloat numerator = c[5], by_numerator = 0.0f, denominator = c[8], by_denominator = 0.0f;
#pragma unroll
    for (int k = 4; k >= 0; --k) { by_numerator = by_numerator * r2 + numerator; numerator = numerator * r2 + c[k]; }
    by_numerator = by_numerator * r2 + numerator; numerator = numerator * r2 + 1.0f;
#pragma unroll
    for (int k = 7; k >= 6; --k) { by_denominator = by_denominator * r2 + denominator; denominator = denominator * r2 + c[k]; }
    by_denominator = by_denominator * r2 + denominator; denominator = denominator * r2 + 1.0f;
    RadialFactor f;
    f.value = numerator / denominator;
    f.slope = (by_numerator - f.value * by_denominator) / denominator;
    return f;
}

__device__ __forceinline__ Place polynomial(Coefficients c, int tangential_last, Place p)
{
    const vfloat factor = radial_factor(c, p.x * p.x + p.y * p.y).value;
    Place out;
    out.x = factor * p.x; out.y = factor * p.y;
    const Place base = tangential_last ? out : p;
    const vfloat r2 = base.x * base.x + base.y * base.y, xy = 2.0f * base.x * base.y;
    out.x += c[9] * xy + c[10] * (r2 + 2.0f * base.x * base.x) + (c[11] + c[12] * r2) * r2;
    out.y += c[10] * xy + c[9] * (r2 + 2.0f * base.y * base.y) + (c[13] + c[14] * r2) * r2;
    out.x += c[15] * out.y;
    return out;
}

__device__ __forceinline__ Place polynomial_backward(Coefficients c, int tangential_last, Place p, Place d)
{
    const RadialFactor factor = radial_factor(c, p.x * p.x + p.y * p.y);
    Place base = p;
    if (tangential_last) { base.x = factor.value * p.x; base.y = factor.value * p.y; }
    d.y += c[15] * d.x;
    const vfloat r2 = base.x * base.x + base.y * base.y;
    const vfloat d_r2 = d.x * (c[10] + c[11] + 2.0f * c[12] * r2) + d.y * (c[9] + c[13] + 2.0f * c[14] * r2);
    Place d_base;
    d_base.x = d.x * (2.0f * c[9] * base.y + 4.0f * c[10] * base.x) + 2.0f * (d.y * c[10] * base.y + d_r2 * base.x);
    d_base.y = d.y * (2.0f * c[10] * base.x + 4.0f * c[9] * base.y) + 2.0f * (d.x * c[9] * base.x + d_r2 * base.y);
    if (tangential_last) { d.x += d_base.x; d.y += d_base.y; }
    const vfloat along = 2.0f * factor.slope * (d.x * p.x + d.y * p.y);
    Place d_p;
    d_p.x = factor.value * d.x + along * p.x; d_p.y = factor.value * d.y + along * p.y;
    if (!tangential_last) { d_p.x += d_base.x; d_p.y += d_base.y; }
    return d_p;
}

// The polynomial within `max_radius`; farther out, the image at max_radius moves outwards in proportion to the radius.
__device__ __forceinline__ Place extended_polynomial(Coefficients c, int tangential_last, float max_radius, Place p)
{
    const vfloat stretch = fmaxf(sqrtf(p.x * p.x + p.y * p.y) / max_radius, vfloat(1.0f));
    p.x = p.x / stretch; p.y = p.y / stretch;
    Place out = polynomial(c, tangential_last, p);
    out.x = stretch * out.x; out.y = stretch * out.y;
    return out;
}

__device__ __forceinline__ Place extended_polynomial_backward(Coefficients c, int tangential_last, float max_radius, Place p, Place d)
{
    const vfloat stretch = fmaxf(sqrtf(p.x * p.x + p.y * p.y) / max_radius, vfloat(1.0f));
    Place inner;
    inner.x = p.x / stretch; inner.y = p.y / stretch;
    Place d_p = polynomial_backward(c, tangential_last, inner, d);
    const vbool outside = stretch > 1.0f;
    if (!some(outside)) return d_p;
    // `inner` does not change along the radius, and the image is proportional to it.
    const Place image = polynomial(c, tangential_last, inner);
    const float inv_square = 1.0f / (max_radius * max_radius);
    const vfloat along = (d.x * image.x + d.y * image.y - d_p.x * inner.x - d_p.y * inner.y) * inv_square;
    d_p.x = select(outside, d_p.x + along * inner.x, d_p.x);
    d_p.y = select(outside, d_p.y + along * inner.y, d_p.y);
    return d_p;
}
