// Rolling shutters: the row in which a point appears says when it is seen, and so from where. The time s of a row is its distance from
// mid-height, over the height of the picture. The camera turns by s * rotation and moves by s * shift, in its axes at mid-height:
//     point in camera coordinates at s:   q(s) = exp(s rotation) (t - s shift)
//     place:                              p = lens(q(s)) with s = (p.y + cy) / height - 1/2
#pragma once

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
