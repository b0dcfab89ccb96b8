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
    float rotation[3], shift[3];    // motion of the camera during the picture; only with ROLLING_SHUTTER
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
// Rolling shutters: the row in which a point appears says when it is seen, and so from where. The time s of a row is its distance from
// mid-height, over the height of the picture. The camera turns by s * rotation and moves by s * shift, in its axes at mid-height:
//     point in camera coordinates at s:   q(s) = exp(s rotation) (t - s shift)
//     place:                              p = lens(q(s)) with s = (p.y + cy) / height - 1/2
#define MAX_TIME 1.0f               // of points outside of the picture

__device__ __forceinline__ vfloat3 vector_at(const float* v) { return make_vec(v[0], v[1], v[2]); }

// t, turned by s * rotation; series for angles up to half of 30 degrees.
__device__ __forceinline__ vfloat3 turned(const LensModel& lens, vfloat s, vfloat3 t)
{
    const vfloat3 axis = scale(s, vector_at(lens.rotation)), across = cross(axis, t);
    const vfloat square = dot(axis, axis);
    const vfloat a = 1.0f - square * (1.0f / 6.0f - square * (1.0f / 120.0f)), b = 0.5f - square * (1.0f / 24.0f - square * (1.0f / 720.0f));
    return add(t, add(scale(a, across), scale(b, cross(axis, across))));
}

// The point at time s, in coordinates of the camera then.
__device__ __forceinline__ vfloat3 at_time(const LensModel& lens, vfloat s, vfloat3 t)
{
    return turned(lens, s, sub(t, scale(s, vector_at(lens.shift))));
}

__device__ __forceinline__ vfloat row_time(const Camera& k, Place p)
{
    return fminf(fmaxf((p.y + k.cy) / k.height - 0.5f, vfloat(-MAX_TIME)), vfloat(MAX_TIME));
}

// Time at which a point is seen, by a secant step after two of the iteration s = row_time(lens(q(s))).
__device__ __forceinline__ vfloat time_of(const LensModel& lens, const Camera& k, vfloat3 t)
{
    const vfloat first = row_time(k, still_place(lens, k, t));
    vfloat s = first, slope = 0.0f;                     // of row_time(lens(q(s)))
#pragma unroll 1
    for (int i = 0; i < 2; ++i) {
        const vfloat found = row_time(k, still_place(lens, k, at_time(lens, s, t)));
        slope = select(fabsf(s) > 1e-4f, (found - first) / s, vfloat(0.0f));
        s = s + (found - s) / (1.0f - fminf(fmaxf(slope, vfloat(-0.5f)), vfloat(0.5f)));
    }
    return fminf(fmaxf(s, vfloat(-MAX_TIME)), vfloat(MAX_TIME));
}

__device__ __forceinline__ Place lens_place(const LensModel& lens, const Camera& k, vfloat3 t)
{
    return still_place(lens, k, at_time(lens, time_of(lens, k, t), t));
}

// With d p = L d q + (L dq/ds) d s and d s = d p.y / height, where L is the derivative of the lens at q:
//     gradient of q = L^T (d + (0, e)),  e = d^T L dq/ds / (height - (L dq/ds).y)
__device__ __forceinline__ vfloat3 lens_backward(const LensModel& lens, const Camera& k, vfloat3 t, Place d)
{
    const Place row = {0.0f, 1.0f};
    const vfloat s = time_of(lens, k, t);
    const vfloat3 q = at_time(lens, s, t), by_time = sub(cross(vector_at(lens.rotation), q), turned(lens, s, vector_at(lens.shift)));
    const vfloat3 still = still_backward(lens, k, q, d), by_row = still_backward(lens, k, q, row);
    const vfloat e = select(fabsf(s) < MAX_TIME, dot(still, by_time) / (k.height - dot(by_row, by_time)), vfloat(0.0f));
    return turned(lens, -s, add(still, scale(e, by_row)));
}
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
