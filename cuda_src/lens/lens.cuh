// Lenses: where a camera sees a point in any direction, and the gradient of that place. Only with LENS.
//
//     point (x, y, z) -> radius of its image, from r = |(x, y)| and z -> polynomial terms, if any -> fx, fy, cx, cy -> pixel
//
// The radius is continued linearly in the angle past `max_angle`, so that every direction has an image, and one that moves away from
// the axis moves outwards: no splat beside or behind the camera is folded back into the picture.
#pragma once
#include "common.cuh"
#include "vectors.cuh"
#include "lens/families.cuh"
#include "lens/polynomial.cuh"

#define FAMILY_PERSPECTIVE 0        // polynomial after x / z
#define FAMILY_FISHEYE 1            // polynomial after the angle to the axis
#define FAMILY_FOV 4
#define FAMILY_DIVISION 5
#define FAMILY_EUCM 6
#define FAMILY_EQUIRECTANGULAR 7
#define FAMILY_FTHETA 8

#ifdef SPLAT_CPU                    // called: with a copy inlined for each sigma point, kernels take 4 to 11 s to compile instead of 2
#define LENS_FUNCTION __noinline__
#else
#define LENS_FUNCTION __forceinline__
#endif

// Lens of a camera that keeps it; fx, fy, cx, cy are in Camera. render/camera.py mirrors this layout.
struct LensModel {
    float c[16];                    // as in splat_cli/scene/lens/distortion.py
    int family;                     // FAMILY_...
    int terms;                      // TERMS_... of a polynomial
    float sin_max, cos_max;         // of max_angle, the largest angle to the axis at which the lens is used
    float max_angle;                // radians
    float max_radius, slope;        // radius at max_angle, and its derivative with respect to the angle
    float cull_cos;                 // cosine of the angle from which splats are culled
    float rotation[3], shift[3];    // motion of the camera during the picture; only with ROLLING_SHUTTER (rolling_shutter.cuh)
};

// The lens of a camera, whose address lies in the place of k1 and k2.
__device__ __forceinline__ const LensModel& lens_of(const Camera& k)
{
    const unsigned long long low = (unsigned)__float_as_int(k.k1), high = (unsigned)__float_as_int(k.k2);
    return *(const LensModel*)(low | high << 32);
}

// Period of the picture in x, px; 0: it has none.
__device__ __forceinline__ float period_of(const LensModel& lens, const Camera& k)
{
    return lens.family == FAMILY_EQUIRECTANGULAR ? 6.28318530718f * k.fx : 0.0f;
}

// Whether the right edge of the picture continues at its left edge.
__device__ __forceinline__ bool wraps_around(const Camera& k) { return fabsf(period_of(lens_of(k), k) - k.width) < 0.5f; }

// x, moved by whole widths of a picture that wraps around to the nearest place to `middle`.
template <class X> __device__ __forceinline__ X wrapped_near(const Camera& k, X x /* float or vfloat */, float middle)
{
    const float width = (float)k.width;
    if (!wraps_around(k)) return x;
    return x - width * floorf((x - middle) * (1.0f / width) + 0.5f);
}

__device__ __forceinline__ Radius lens_radius(const LensModel& lens, vfloat r, vfloat z)
{
    Radius radius;
    if (lens.family == FAMILY_PERSPECTIVE) radius = perspective_radius(r, z);
    else if (lens.family == FAMILY_FISHEYE) return fisheye_radius(r, z);
    else if (lens.family == FAMILY_DIVISION) radius = division_radius(lens.c, r, z);
    else if (lens.family == FAMILY_EUCM) radius = eucm_radius(lens.c, r, z);
    else if (lens.family == FAMILY_FTHETA) radius = ftheta_radius(lens.c, r, z);
    else radius = fov_radius(lens.c, r, z);
    const vbool outside = r * lens.cos_max > z * lens.sin_max;      // sin(angle - max_angle) > 0
    if (!some(outside)) return radius;
    const Radius angle = fisheye_radius(r, z);
    radius.value = select(outside, lens.max_radius + lens.slope * (angle.value - lens.max_angle), radius.value);
    radius.by_r = select(outside, lens.slope * angle.by_r, radius.by_r);
    radius.by_z = select(outside, lens.slope * angle.by_z, radius.by_z);
    return radius;
}

// Squared distance of a point from the axis, not zero: the ratio of radius and r is needed there.
__device__ __forceinline__ vfloat square_from_axis(vfloat3 t)
{
    return fmaxf(t.x * t.x + t.y * t.y, 1e-12f * t.z * t.z + 1e-36f);
}

__device__ __forceinline__ bool has_polynomial(const LensModel& lens) { return lens.family <= FAMILY_FISHEYE; }

// Image of a point in camera coordinates, px from the principal point.
__device__ LENS_FUNCTION Place still_place(const LensModel& lens, const Camera& k, vfloat3 t)
{
    Place p;
    if (lens.family == FAMILY_EQUIRECTANGULAR) p = equirectangular_place(t);
    else {
        const vfloat square = square_from_axis(t), inv_r = rsqrtf(square), ratio = lens_radius(lens, square * inv_r, t.z).value * inv_r;
        p.x = t.x * ratio; p.y = t.y * ratio;
        if (has_polynomial(lens)) p = extended_polynomial({lens.c, lens.terms}, lens.max_radius, p);
    }
    p.x = k.fx * p.x; p.y = k.fy * p.y;
    return p;
}

// Gradient of the point from that of its image.
__device__ LENS_FUNCTION vfloat3 still_backward(const LensModel& lens, const Camera& k, vfloat3 t, Place d)
{
    d.x = k.fx * d.x; d.y = k.fy * d.y;
    if (lens.family == FAMILY_EQUIRECTANGULAR) return equirectangular_backward(t, d);
    const vfloat square = square_from_axis(t), inv_r = rsqrtf(square);
    const Radius radius = lens_radius(lens, square * inv_r, t.z);
    const vfloat ratio = radius.value * inv_r;
    if (has_polynomial(lens)) {
        Place p;
        p.x = t.x * ratio; p.y = t.y * ratio;
        d = extended_polynomial_backward({lens.c, lens.terms}, lens.max_radius, p, d);
    }
    const vfloat d_ratio = d.x * t.x + d.y * t.y, outward = d_ratio * (radius.by_r - ratio) * inv_r * inv_r;
    return make_vec(ratio * d.x + outward * t.x, ratio * d.y + outward * t.y, d_ratio * inv_r * radius.by_z);
}

// The same while the camera moves.
#ifdef ROLLING_SHUTTER
#include "lens/rolling_shutter.cuh"
#else
__device__ __forceinline__ Place lens_place(const LensModel& lens, const Camera& k, vfloat3 t) { return still_place(lens, k, t); }
__device__ __forceinline__ vfloat3 lens_backward(const LensModel& lens, const Camera& k, vfloat3 t, Place d)
{
    return still_backward(lens, k, t, d);
}
#endif

// Whether splats at t (camera coordinates) are considered. NaN fails.
__device__ __forceinline__ vbool lens_sees(const LensModel& lens, vfloat3 t)
{
    const vfloat distance = sqrtf(dot(t, t));
    return (distance > NEAR_PLANE) & (t.z > lens.cull_cos * distance);
}
