// One splat seen by one camera, forward: what project and project_backward both need (EWA splatting, Zwicker et al. 2001).
#pragma once
#include "common.cuh"

// px^2 that the pixel's filter adds to both variances of a projected splat: what every viewer adds, and what Mip-Splatting does
// (Yu et al. 2024, sec. 5.2), whose splats keep their energy and so need no more than about a pixel's own width.
__device__ __forceinline__ float dilation(int antialias) { return antialias ? 0.1f : 0.3f; }

// The geometric parameters of splat i out of the planes.
struct Gaussian { float3 mean, scale; float4 quat; float opacity; };

__device__ __forceinline__ Gaussian load_gaussian(const float* __restrict__ params /* [rows, stride] */, size_t stride, int i)
{
    const float* p = params + i;
    Gaussian g;
    g.mean = make_vec(p[0], p[stride], p[2 * stride]);
    g.scale = make_vec(expf(p[3 * stride]), expf(p[4 * stride]), expf(p[5 * stride]));
    g.quat.x = p[6 * stride]; g.quat.y = p[7 * stride]; g.quat.z = p[8 * stride]; g.quat.w = p[9 * stride];
    g.opacity = sigmoid(p[ROW_OPACITY * stride]);
    return g;
}

struct Projected {
    float3 t;                       // mean in the camera's frame
    float tx, ty;                   // x/z and y/z, clamped to the frame and 30 % of its half
    Mat3 r, m;                      // rotation of the splat; r diag(scale)
    float3 u0, u1;                  // rows of J W
    float3 v0, v1;                  // rows of J W R S: the covariance is v v^T
    float inv_quat_norm;
    float dilation;                 // px^2
    float a, b, c;                  // dilated covariance, px^2
    float det0, det;                // determinants before and after the dilation
};

__device__ __forceinline__ Mat3 world_rotation(const Camera& k)
{
    Mat3 w;
    w.r0 = make_vec(k.w2c[0], k.w2c[1], k.w2c[2]);
    w.r1 = make_vec(k.w2c[4], k.w2c[5], k.w2c[6]);
    w.r2 = make_vec(k.w2c[8], k.w2c[9], k.w2c[10]);
    return w;
}

__device__ __forceinline__ float3 to_camera(const Camera& k, float3 mean)
{
    return add(mul(world_rotation(k), mean), make_vec(k.w2c[3], k.w2c[7], k.w2c[11]));
}

__device__ __forceinline__ Projected project_gaussian(const Gaussian& g, const Camera& k, int antialias)
{
    Projected p;
    const Mat3 w = world_rotation(k);
    p.t = to_camera(k, g.mean);
    const float inv_z = 1.0f / p.t.z;
    const float margin_x = 0.15f * k.width, margin_y = 0.15f * k.height;
    p.tx = fminf(fmaxf(p.t.x * inv_z, -(k.cx + margin_x) / k.fx), (k.width + margin_x - k.cx) / k.fx);
    p.ty = fminf(fmaxf(p.t.y * inv_z, -(k.cy + margin_y) / k.fy), (k.height + margin_y - k.cy) / k.fy);
    p.u0 = scale(k.fx * inv_z, sub(w.r0, scale(p.tx, w.r2)));
    p.u1 = scale(k.fy * inv_z, sub(w.r1, scale(p.ty, w.r2)));

    p.inv_quat_norm = inv_norm(g.quat);
    p.r = unit_rotation(g.quat);
    p.m.r0 = make_vec(p.r.r0.x * g.scale.x, p.r.r0.y * g.scale.y, p.r.r0.z * g.scale.z);
    p.m.r1 = make_vec(p.r.r1.x * g.scale.x, p.r.r1.y * g.scale.y, p.r.r1.z * g.scale.z);
    p.m.r2 = make_vec(p.r.r2.x * g.scale.x, p.r.r2.y * g.scale.y, p.r.r2.z * g.scale.z);
    p.v0 = mul_transposed(p.m, p.u0);
    p.v1 = mul_transposed(p.m, p.u1);

    const float a0 = dot(p.v0, p.v0), c0 = dot(p.v1, p.v1);
    const float3 normal = cross(p.v0, p.v1);
    p.dilation = dilation(antialias);
    p.a = a0 + p.dilation; p.b = dot(p.v0, p.v1); p.c = c0 + p.dilation;
    p.det0 = dot(normal, normal);   // |v0 x v1|^2: a needle loses nothing to cancellation
    p.det = p.det0 + p.dilation * (a0 + c0) + p.dilation * p.dilation;
    return p;
}

// Opacity of a splat after the dilation: as it is, or scaled so that it keeps its energy (Mip-Splatting, Yu et al. 2024, sec. 5.2).
__device__ __forceinline__ float compensation(const Projected& p, int antialias)
{
    return antialias ? sqrtf(p.det0 / p.det) : 1.0f;
}
