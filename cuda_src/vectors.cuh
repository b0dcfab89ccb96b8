// Vectors, 3x3 matrices and rotations of the number types in numbers.cuh.
#pragma once
#include "numbers.cuh"

__device__ __forceinline__ vfloat sigmoid(vfloat x) { return 1.0f / (1.0f + expf(-x)); }

__device__ __forceinline__ vfloat3 make_vec(vfloat x, vfloat y, vfloat z) { vfloat3 v; v.x = x; v.y = y; v.z = z; return v; }
__device__ __forceinline__ vfloat dot(vfloat3 a, vfloat3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
__device__ __forceinline__ vfloat3 cross(vfloat3 a, vfloat3 b)
{
    return make_vec(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}
__device__ __forceinline__ vfloat3 scale(vfloat s, vfloat3 a) { return make_vec(s * a.x, s * a.y, s * a.z); }
__device__ __forceinline__ vfloat3 mul_elements(vfloat3 a, vfloat3 b) { return make_vec(a.x * b.x, a.y * b.y, a.z * b.z); }
__device__ __forceinline__ vfloat3 add(vfloat3 a, vfloat3 b) { return make_vec(a.x + b.x, a.y + b.y, a.z + b.z); }
__device__ __forceinline__ vfloat3 sub(vfloat3 a, vfloat3 b) { return make_vec(a.x - b.x, a.y - b.y, a.z - b.z); }

__device__ __forceinline__ vfloat3 select(vbool m, vfloat3 a, vfloat3 b)
{
    return make_vec(select(m, a.x, b.x), select(m, a.y, b.y), select(m, a.z, b.z));
}
// Loads and stores a vector whose components lie in three planes, if m holds. p: the lane's own element of the first plane.
__device__ __forceinline__ vfloat3 load_vec(const float* __restrict__ p /* [3, stride] */, size_t stride, vbool m)
{
    return make_vec(load_own(p, m), load_own(p + stride, m), load_own(p + 2 * stride, m));
}
__device__ __forceinline__ void store_vec(float* __restrict__ p /* [3, stride] */, size_t stride, vfloat3 v, vbool m)
{
    store_own(p, v.x, m); store_own(p + stride, v.y, m); store_own(p + 2 * stride, v.z, m);
}

// A 3x3 matrix as three rows.
struct Mat3 { vfloat3 r0, r1, r2; };
__device__ __forceinline__ vfloat3 mul(const Mat3& m, vfloat3 v) { return make_vec(dot(m.r0, v), dot(m.r1, v), dot(m.r2, v)); }
__device__ __forceinline__ vfloat3 mul_transposed(const Mat3& m, vfloat3 v)   // m^T v, which is also the row vector v^T m
{
    return add(add(scale(v.x, m.r0), scale(v.y, m.r1)), scale(v.z, m.r2));
}

// Rotation matrix of a unit quaternion (w, x, y, z).
__device__ __forceinline__ Mat3 rotation(vfloat4 q)
{
    const vfloat w = q.x, x = q.y, y = q.z, z = q.w;
    Mat3 r;
    r.r0 = make_vec(1.0f - 2.0f * (y * y + z * z), 2.0f * (x * y - w * z), 2.0f * (x * z + w * y));
    r.r1 = make_vec(2.0f * (x * y + w * z), 1.0f - 2.0f * (x * x + z * z), 2.0f * (y * z - w * x));
    r.r2 = make_vec(2.0f * (x * z - w * y), 2.0f * (y * z + w * x), 1.0f - 2.0f * (x * x + y * y));
    return r;
}

// 1 / |q|; finite even if q is 0.
__device__ __forceinline__ vfloat inv_norm(vfloat4 q)
{
    return rsqrtf(fmaxf(q.x * q.x + q.y * q.y + q.z * q.z + q.w * q.w, 1e-24f));
}

// Rotation matrix of a quaternion of any length.
__device__ __forceinline__ Mat3 unit_rotation(vfloat4 q)
{
    const vfloat n = inv_norm(q);
    vfloat4 unit;
    unit.x = q.x * n; unit.y = q.y * n; unit.z = q.z * n; unit.w = q.w * n;
    return rotation(unit);
}
