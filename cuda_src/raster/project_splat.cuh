// Projects the splats of a warp into a view, by EWA splatting (Zwicker et al. 2001) or, with LENS, through a lens (unscented.cuh); colours
// from spherical harmonics.
#pragma once
#include "lanes.cuh"
#include "raster/ellipse.cuh"
#include "raster/projection.cuh"
#include "raster/sh.cuh"
#ifdef LENS
#include "raster/unscented.cuh"
#endif

// params: the lane's own element of the first plane.
__device__ __forceinline__ vfloat3 color_from_sh(
    const float* __restrict__ params /* [rows, stride] */, size_t stride, vbool m, vfloat3 direction, int degree)
{
    return sh_color(degree, direction, [&](int k) { return load_vec(params + (ROW_SH0 + 3 * k) * stride, stride, m); });
}

// Whether dropout drops splat i in this step (DropGaussian, Park et al. 2025, sec. 3.2). Frozen splats are never dropped.
__device__ __forceinline__ vbool is_dropped(int step, int num_frozen, vint i, float dropout)
{
    const unsigned seed = pcg((unsigned)step);
    return test_each(i, [=](int k) { return k >= num_frozen && pcg(seed + k) * (1.0f / 4294967296.0f) < dropout; });
}

// The splats in m that dropout keeps in this step; all of them without DROPOUT. `gain` multiplies their opacities to make up for the
// dropped ones.
__device__ __forceinline__ vbool apply_dropout(vint splat, vbool m, int step, int num_frozen, float dropout, vfloat& gain)
{
#ifdef DROPOUT
    gain = select(splat < num_frozen, vfloat(1.0f), vfloat(1.0f / (1.0f - dropout)));
    return m & !is_dropped(step, num_frozen, splat, dropout);
#else
    gain = 1.0f;
    return m;
#endif
}

// A splat as a view sees it.
struct SplatInView {
    vfloat depth, x, y;
    vfloat4 conic_opacity, color;
    Ellipse ellipse;
};

// The splats in m that the view sees; fills `out` for them. Comparisons are written so that NaN fails them.
// params, smooth_3d_sigmas: the lane's own element of the first plane.
__device__ __forceinline__ vbool project_splat(
    const float* __restrict__ params /* [rows, stride] */, size_t stride, vbool m, const Camera& camera, int degree, int antialias,
    const float* __restrict__ smooth_3d_sigmas /* [1, stride] or null */, vfloat gain, SplatInView& out)
{
    const vfloat3 mean = load_vec(params, stride, m);
#ifdef LENS
    vbool seen = m & lens_sees(lens_of(camera), to_camera(camera, mean));
#else
    vbool seen = m & (to_camera(camera, mean).z > NEAR_PLANE);
#endif
    if (!some(seen)) return seen;
    Gaussian g = load_gaussian(params, stride, seen);
    if (smooth_3d_sigmas) smooth_3d(g, load_own(smooth_3d_sigmas, seen));
#ifdef LENS
    const Unscented p = project_through_lens(g, camera, antialias);
#else
    const Projected p = project_gaussian(g, camera, antialias);
#endif
    const vfloat opacity = gain * g.opacity * compensation(p, antialias);
#ifdef LENS
    seen = seen & has_outline(lens_of(camera), p);
#endif
    seen = seen & (opacity > ALPHA_MIN) & (p.det > 0.0f) & (p.det < 1e30f);
    if (!some(seen)) return seen;
#ifdef LENS
    out.depth = sqrtf(dot(p.t, p.t));
    out.x = p.x + camera.cx;
    out.y = p.y + camera.cy;
#else
    out.depth = p.t.z;
    const vfloat d = RADIAL ? p.distortion.d : vfloat(1.0f);
    out.x = camera.fx * d * p.t.x / p.t.z + camera.cx;
    out.y = camera.fy * d * p.t.y / p.t.z + camera.cy;
#endif
    seen = seen & (fabsf(out.x) + fabsf(out.y) < 1e9f);
    if (!some(seen)) return seen;
    vfloat4& conic = out.conic_opacity;
    conic.x = p.c / p.det; conic.y = -p.b / p.det; conic.z = p.a / p.det; conic.w = opacity;
    out.ellipse = make_ellipse(out.x, out.y, conic);
    seen = touches_tiles(out.ellipse, camera, seen);
    if (!some(seen)) return seen;

    const vfloat3 ray = ray_to(mean, camera);
    const vfloat3 color = color_from_sh(params, stride, seen, scale(rsqrtf(dot(ray, ray)), ray), degree);
    out.color.x = fmaxf(color.x, 0.0f); out.color.y = fmaxf(color.y, 0.0f); out.color.z = fmaxf(color.z, 0.0f); out.color.w = 0.0f;
    return seen & (fabsf(color.x) + fabsf(color.y) + fabsf(color.z) < 1e9f);    // before fmaxf, which turns NaN into 0
}
