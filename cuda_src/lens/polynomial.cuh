// Radial, rational, tangential and thin-prism terms of COLMAP's and OpenCV's models.
// c: radial [6], rational [3], p1, p2, prism [4], skew, as in splat_cli/scene/lens/distortion.py.
#pragma once
#include "lens/families.cuh"

// Terms of a lens: the other coefficients are zero, and neither read nor multiplied.
#define TERMS_HIGH 1                // c[2] to c[5]
#define TERMS_RATIONAL 2            // c[6] to c[8]
#define TERMS_TANGENTIAL 4          // c[9], c[10]
#define TERMS_PRISM 8               // c[11] to c[15]
#define TERMS_LAST 16               // tangential and prism terms apply to the radially distorted point

// The coefficients of a camera, read where they are used: the compiler would keep all of them in registers during a loop over points, and
// fewer warps would run.
struct Coefficients {
    const float* first;
    int terms;                      // TERMS_...
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
    __device__ __forceinline__ bool has(int which) const { return terms & which; }
};

// Factor of the radius, and its derivative with respect to the squared radius.
struct RadialFactor { vfloat value, slope; };

// Adds `count` powers below a polynomial's value and derivative, by Horner's rule. The lowest coefficient is c[first].
__device__ __forceinline__ void add_powers(Coefficients c, int first, int count, vfloat r2, vfloat& value, vfloat& slope)
{
#pragma unroll
    for (int k = count - 1; k >= 0; --k) { slope = slope * r2 + value; value = value * r2 + c[first + k]; }
}

__device__ __forceinline__ RadialFactor radial_factor(Coefficients c, vfloat r2)
{
    RadialFactor f = {0.0f, 0.0f};
    if (c.has(TERMS_HIGH)) add_powers(c, 2, 4, r2, f.value, f.slope);
    add_powers(c, 0, 2, r2, f.value, f.slope);
    f.slope = f.slope * r2 + f.value; f.value = f.value * r2 + 1.0f;
    if (c.has(TERMS_RATIONAL)) {
        vfloat denominator = 0.0f, by_denominator = 0.0f;
        add_powers(c, 6, 3, r2, denominator, by_denominator);
        by_denominator = by_denominator * r2 + denominator; denominator = denominator * r2 + 1.0f;
        f.value = f.value / denominator;
        f.slope = (f.slope - f.value * by_denominator) / denominator;
    }
    return f;
}

__device__ __forceinline__ Place polynomial(Coefficients c, Place p)
{
    const vfloat factor = radial_factor(c, p.x * p.x + p.y * p.y).value;
    Place out = {factor * p.x, factor * p.y};
    const Place base = c.has(TERMS_LAST) ? out : p;
    const vfloat r2 = base.x * base.x + base.y * base.y;
    if (c.has(TERMS_TANGENTIAL)) {
        const vfloat xy = 2.0f * base.x * base.y;
        out.x += c[9] * xy + c[10] * (r2 + 2.0f * base.x * base.x);
        out.y += c[10] * xy + c[9] * (r2 + 2.0f * base.y * base.y);
    }
    if (c.has(TERMS_PRISM)) {
        out.x += (c[11] + c[12] * r2) * r2;
        out.y += (c[13] + c[14] * r2) * r2;
        out.x += c[15] * out.y;
    }
    return out;
}

__device__ __forceinline__ Place polynomial_backward(Coefficients c, Place p, Place d)
{
    const RadialFactor factor = radial_factor(c, p.x * p.x + p.y * p.y);
    Place base = p, d_base = {0.0f, 0.0f};
    if (c.has(TERMS_LAST)) { base.x = factor.value * p.x; base.y = factor.value * p.y; }
    vfloat d_r2 = 0.0f;
    if (c.has(TERMS_PRISM)) {
        const vfloat r2 = base.x * base.x + base.y * base.y;
        d.y += c[15] * d.x;
        d_r2 = d.x * (c[11] + 2.0f * c[12] * r2) + d.y * (c[13] + 2.0f * c[14] * r2);
    }
    if (c.has(TERMS_TANGENTIAL)) {
        const vfloat p1 = c[9], p2 = c[10], across = 2.0f * (d.x * p1 + d.y * p2);
        d_r2 += d.x * p2 + d.y * p1;
        d_base.x = across * base.y + 4.0f * p2 * d.x * base.x;
        d_base.y = across * base.x + 4.0f * p1 * d.y * base.y;
    }
    d_base.x += 2.0f * d_r2 * base.x; d_base.y += 2.0f * d_r2 * base.y;
    if (c.has(TERMS_LAST)) { d.x += d_base.x; d.y += d_base.y; }
    const vfloat along = 2.0f * factor.slope * (d.x * p.x + d.y * p.y);
    Place d_p = {factor.value * d.x + along * p.x, factor.value * d.y + along * p.y};
    if (!c.has(TERMS_LAST)) { d_p.x += d_base.x; d_p.y += d_base.y; }
    return d_p;
}

// The polynomial within `max_radius`; farther out, the image at max_radius moves outwards in proportion to the radius.
__device__ __forceinline__ vfloat stretch_beyond(float max_radius, Place p)
{
    const vfloat square = p.x * p.x + p.y * p.y;
    const vbool outside = square > max_radius * max_radius;
    if (!some(outside)) return 1.0f;
    return select(outside, sqrtf(square) / max_radius, vfloat(1.0f));
}

__device__ __forceinline__ Place extended_polynomial(Coefficients c, float max_radius, Place p)
{
    const vfloat stretch = stretch_beyond(max_radius, p);
    const vbool outside = stretch > 1.0f;
    if (some(outside)) { p.x = p.x / stretch; p.y = p.y / stretch; }
    Place out = polynomial(c, p);
    out.x = stretch * out.x; out.y = stretch * out.y;
    return out;
}

__device__ __forceinline__ Place extended_polynomial_backward(Coefficients c, float max_radius, Place p, Place d)
{
    const vfloat stretch = stretch_beyond(max_radius, p);
    const vbool outside = stretch > 1.0f;
    Place inner = p;
    if (some(outside)) { inner.x = p.x / stretch; inner.y = p.y / stretch; }
    Place d_p = polynomial_backward(c, inner, d);
    if (!some(outside)) return d_p;
    // `inner` does not change along the radius, and the image is proportional to it.
    const Place image = polynomial(c, inner);
    const float inv_square = 1.0f / (max_radius * max_radius);
    const vfloat along = (d.x * image.x + d.y * image.y - d_p.x * inner.x - d_p.y * inner.y) * inv_square;
    d_p.x = select(outside, d_p.x + along * inner.x, d_p.x);
    d_p.y = select(outside, d_p.y + along * inner.y, d_p.y);
    return d_p;
}
