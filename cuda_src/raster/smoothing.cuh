// The 3D smoothing filter: no splat is finer than what the training views sample (Mip-Splatting, Yu et al. 2024, sec. 5.1).
// Its covariance grows by filter^2 I, and its opacity falls by what it then holds more.
#pragma once
#include "raster/geometry_backward.cuh"

struct Smoothing {
    vfloat3 share;                  // of the raw variance in the smoothed one, along each axis
    vfloat rest;                    // 1 - raw opacity
};

// Makes a raw splat what is seen of it. filter: world units, a standard deviation.
__device__ __forceinline__ Smoothing smooth(Gaussian& g, vfloat filter)
{
    const vfloat3 raw = mul_elements(g.scale, g.scale);
    const vfloat3 sum = add(raw, make_vec(filter * filter, filter * filter, filter * filter));
    Smoothing s;
    s.share = make_vec(raw.x / sum.x, raw.y / sum.y, raw.z / sum.z);
    s.rest = 1.0f - g.opacity;
    g.scale = make_vec(sqrtf(sum.x), sqrtf(sum.y), sqrtf(sum.z));
    g.opacity *= sqrtf(s.share.x * s.share.y * s.share.z);
    return s;
}

// From gradients by the smoothed splat to those by the raw one. d_log_opacity: by the logarithm of either's opacity.
__device__ __forceinline__ void smooth_backward(const Smoothing& s, vfloat d_log_opacity, GeometryGradient& d)
{
    const vfloat3 others = make_vec(1.0f - s.share.x, 1.0f - s.share.y, 1.0f - s.share.z);
    d.log_scale = add(mul_elements(s.share, d.log_scale), scale(d_log_opacity, others));
    d.logit_opacity = d_log_opacity * s.rest;
}
