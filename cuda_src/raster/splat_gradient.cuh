// Gradient of one splat in one view, with respect to its raw geometry and its colour; sums of such gradients over views.
#pragma once
#include "raster/geometry_backward.cuh"

// Zero if the view does not see the splat.
struct SplatGradient {
    GeometryGradient geometry;
    vfloat3 color;                  // dL/d colour
};

// sums: from blend_backward. rgb: colour in the view, 0 if it was clamped. params, smooth_3d_sigmas (may be null): point to
// the lane's element of the first plane.
__device__ __forceinline__ SplatGradient splat_backward(
    const SplatSums& sums, Gaussian g, vfloat4 rgb, const Camera& camera, int antialias, int degree,
    const float* __restrict__ params /* [rows, stride] */, const float* __restrict__ smooth_3d_sigmas /* [1, stride] */,
    size_t stride, vbool m)
{
    SplatGradient d;
    Smooth3D smoothing = {};
    if (smooth_3d_sigmas) smoothing = smooth_3d(g, load_own(smooth_3d_sigmas, m));
    d.geometry = geometry_backward(g, camera, sums, antialias);
    if (smooth_3d_sigmas) smooth_3d_backward(smoothing, sums.g, d.geometry);
    d.color = unclamped(sums, rgb);
    const vfloat3 ray = ray_to(g.mean, camera);
    const vfloat inv_length = rsqrtf(dot(ray, ray));
    d.geometry.mean = add(d.geometry.mean, ray_backward(params, stride, m, degree, ray, inv_length, d.color));
    return d;
}

// The splat's ray in a view for color_backward, which adds those of NUM_SLOTS views.
__device__ __forceinline__ SplatRay ray_of(const SplatSums& sums, vfloat4 rgb, vfloat3 mean, const Camera& camera)
{
    const vfloat3 ray = ray_to(mean, camera);
    return {scale(rsqrtf(dot(ray, ray)), ray), scale(1.0f / NUM_SLOTS, unclamped(sums, rgb))};
}

// d in active lanes (m), zero in the others.
__device__ __forceinline__ SplatGradient masked(vbool m, const SplatGradient& d)
{
    const vfloat3 zero = make_vec(0.0f, 0.0f, 0.0f);
    SplatGradient r = d;
    GeometryGradient& g = r.geometry;
    r.color = select(m, d.color, zero);
    g.mean = select(m, g.mean, zero);
    g.log_scale = select(m, g.log_scale, zero);
    g.quat.x = select(m, g.quat.x, zero.x); g.quat.y = select(m, g.quat.y, zero.x);
    g.quat.z = select(m, g.quat.z, zero.x); g.quat.w = select(m, g.quat.w, zero.x);
    g.logit_opacity = select(m, g.logit_opacity, zero.x);
    return r;
}

// Adds the geometry gradient of another view.
__device__ __forceinline__ GeometryGradient add_view(const GeometryGradient& sum, const GeometryGradient& d)
{
    GeometryGradient s = sum;
    s.mean = add(sum.mean, d.mean);
    s.log_scale = add(sum.log_scale, d.log_scale);
    s.quat.x += d.quat.x; s.quat.y += d.quat.y; s.quat.z += d.quat.z; s.quat.w += d.quat.w;
    s.logit_opacity += d.logit_opacity;
    return s;
}

__device__ __forceinline__ GeometryGradient scaled(float factor, const GeometryGradient& d)
{
    GeometryGradient s = d;
    s.mean = scale(factor, d.mean);
    s.log_scale = scale(factor, d.log_scale);
    s.quat.x *= factor; s.quat.y *= factor; s.quat.z *= factor; s.quat.w *= factor;
    s.logit_opacity *= factor;
    return s;
}
