// 3D smoothing filter: no splat is finer than the sampling of the training views (Mip-Splatting, Yu et al. 2024, sec. 5.1). It adds
// sigma^2 I to a splat's covariance and lowers the opacity so that the integral of the Gaussian stays the same.
#pragma once
#include "raster/geometry_backward.cuh"

struct Smooth3D {
    vfloat3 share;                  // raw variance / smoothed variance, per axis
    vfloat rest;                    // 1 - raw opacity
};

// Smooths a raw splat. sigma: standard deviation of the filter, world units.
__device__ __forceinline__ Smooth3D smooth_3d(Gaussian& g, vfloat sigma)
{
    const vfloat3 raw = mul_elements(g.scale, g.scale);
    const vfloat3 sum = add(raw, make_vec(sigma * sigma, sigma * sigma, sigma * sigma));
    Smooth3D s;
    s.share = make_vec(raw.x / sum.x, raw.y / sum.y, raw.z / sum.z);
    s.rest = 1.0f - g.opacity;
    g.scale = make_vec(sqrtf(sum.x), sqrtf(sum.y), sqrtf(sum.z));
    g.opacity *= sqrtf(s.share.x * s.share.y * s.share.z);
    return s;
}

// Turns gradients of the smoothed splat into those of the raw one. d_log_opacity: gradient of the log of the opacity, the same for both.
__device__ __forceinline__ void smooth_3d_backward(const Smooth3D& s, vfloat d_log_opacity, GeometryGradient& d)
{
    const vfloat3 others = make_vec(1.0f - s.share.x, 1.0f - s.share.y, 1.0f - s.share.z);
    d.log_scale = add(mul_elements(s.share, d.log_scale), scale(d_log_opacity, others));
    d.logit_opacity = d_log_opacity * s.rest;
}
