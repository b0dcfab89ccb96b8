// Projects every splat into the current view and counts the tiles that it touches; splats that may touch many are queued for
// count_large_tiles. With SENT: projects a rank's share into a view of the batch, for the rank that renders it.
// One lane owns one splat, blocks are independent. EWA splatting (Zwicker et al. 2001); colours by spherical harmonics.
#include "raster/tile_walk.cuh"
#include "raster/projection.cuh"
#include "raster/sh.cuh"
#include "raster/smooth_3d.cuh"
#include "raster/splat_sums.cuh"
#include "raster/visible.cuh"

// params: the lane's own element of the first plane.
__device__ __forceinline__ vfloat3 color_from_sh(
    const float* __restrict__ params /* [rows, stride] */, size_t stride, vbool m, vfloat3 direction, int degree)
{
    return sh_color(degree, direction, [&](int k) { return load_vec(params + (ROW_SH0 + 3 * k) * stride, stride, m); });
}

// Whether dropout leaves out splat i in this step (DropGaussian, Park et al. 2025, sec. 3.2). Frozen splats are never left out.
__device__ __forceinline__ vbool is_dropped(int step, int num_frozen, vint i, float dropout)
{
    const unsigned seed = pcg((unsigned)step);
    return test_each(i, [=](int k) { return k >= num_frozen && pcg(seed + k) * (1.0f / 4294967296.0f) < dropout; });
}

// A splat as the view sees it.
struct SplatInView {
    vfloat depth, x, y;
    vfloat4 conic_opacity, color;
    Ellipse ellipse;
};

// Of the splats in m, which ones the view sees; fills `out` there. Comparisons are such that NaN fails them.
// params and smooth_3d_sigmas: the lane's own element of the first plane.
__device__ __forceinline__ vbool project_splat(
    const float* __restrict__ params /* [rows, stride] */, size_t stride, vbool m, const Camera& camera, int degree, int antialias,
    const float* __restrict__ smooth_3d_sigmas /* [1, stride] or null */, vfloat gain, SplatInView& out)
{
    const vfloat3 mean = load_vec(params, stride, m);
    vbool seen = m & (to_camera(camera, mean).z > NEAR_PLANE);
    if (!some(seen)) return seen;
    Gaussian g = load_gaussian(params, stride, seen);
    if (smooth_3d_sigmas) smooth_3d(g, load_own(smooth_3d_sigmas, seen));
    const Projected p = project_gaussian(g, camera, antialias);
    const vfloat opacity = gain * g.opacity * compensation(p, antialias);
    seen = seen & (opacity > ALPHA_MIN) & (p.det > 0.0f) & (p.det < 1e30f);
    if (!some(seen)) return seen;
    out.depth = p.t.z;
    const vfloat d = RADIAL ? p.distortion.d : vfloat(1.0f);
    out.x = camera.fx * d * p.t.x / p.t.z + camera.cx;
    out.y = camera.fy * d * p.t.y / p.t.z + camera.cy;
    seen = seen & (fabsf(out.x) + fabsf(out.y) < 1e9f);
    if (!some(seen)) return seen;
    vfloat4& conic = out.conic_opacity;
    conic.x = p.c / p.det; conic.y = -p.b / p.det; conic.z = p.a / p.det; conic.w = opacity;
    out.ellipse = make_ellipse(out.x, out.y, conic);
    seen = touches_tiles(out.ellipse, camera, seen);
    if (!some(seen)) return seen;

    const vfloat3 ray = sub(mean, make_vec(camera.position[0], camera.position[1], camera.position[2]));
    const vfloat3 color = color_from_sh(params, stride, seen, scale(rsqrtf(dot(ray, ray)), ray), degree);
    out.color.x = fmaxf(color.x, 0.0f); out.color.y = fmaxf(color.y, 0.0f); out.color.z = fmaxf(color.z, 0.0f); out.color.w = 0.0f;
    return seen & (fabsf(color.x) + fabsf(color.y) + fabsf(color.z) < 1e9f);    // before fmaxf, which turns NaN into 0
}

// Puts a warp's visible splats into the slot of another rank's view (visible.cuh). first_own: the warp's first splat of the share.
__device__ __forceinline__ void put_splats(float* __restrict__ slot, int columns, int rows, int first_own, vbool visible, const SplatInView& view)
{
    VisibleGroup group = {ballot(visible), 0};
    if (group.mask) group.begin = take_for_warp((unsigned*)slot, __popc(group.mask));
    if (leader()) ((VisibleGroup*)(slot + GROUPS_AT))[first_own / 32] = group;
    const vint row = row_of(group, lane_id());
    const vbool sent = visible & (row < rows);
    if (!some(sent)) return;
    float4* const conics = (float4*)(slot + splats_at(columns));
    float* const means = (float*)(conics + 2 * (size_t)rows);
    vfloat4 color = view.color;
    color.w = view.depth;
    store4(conics, row, view.conic_opacity, sent);
    store4(conics + rows, row, color, sent);
    store(means, 2 * row, view.x, sent);
    store(means, 2 * row + 1, view.y, sent);
}

extern "C" __global__ void project(
    const float* __restrict__ params,       // [rows, capacity]
    int capacity,
    const Camera* __restrict__ cameras,     // [num_views]
    IterState* __restrict__ state,          // [1] num_large is counted
    const BatchView* __restrict__ shown,    // [1] the view; null: that of `state`
    int antialias,                          // 0 or 1
    Share share,                            // splats to project
    int columns,                            // their number, rounded up
    float* __restrict__ depths,             // [columns] z; 0 where invisible
    float2* __restrict__ means2d,           // [columns] px; not with SENT, as the next
    float4* __restrict__ conic_opacity,     // [columns] px^-2 (a, b, c), opacity
    float4* __restrict__ colors,            // [columns] rgb, unused
    unsigned* __restrict__ tile_counts,     // [num_tiles] small splats that touch a tile are added; not with SENT, as the next
    unsigned* __restrict__ large_splats,    // [capacity] the others, num_large of them: for count_large_tiles
    float* __restrict__ d_splats,           // [capacity, SPLAT_SUMS] zeroed for visible splats; may be null; not with SENT
    const float* __restrict__ smooth_3d_sigmas, // [1, capacity] see smooth_3d.cuh; may be null
    int rows,                               // of the slot, for visible splats; with SENT, as the next
    float* __restrict__ slot,               // of the view (visible.cuh): its number of visible splats is added to
    float dropout)                          // share of splats to leave out; the others' opacities make up for them; with DROPOUT
{
#ifndef SENT
    __shared__ TileWork work;
#endif
    const int first_own = blockIdx.x * 32 * blockDim.y, first = splat_of(share, first_own), n = state->num_splats;
    if (state->overflowed) return;
    if (first >= n) {
#ifdef SENT
        put_splats(slot, columns, rows, first_own + first_of_warp(), false, {});
#endif
        return;
    }
    const Camera& camera = shown ? shown->camera : cameras[state->view];
    const int degree = shown ? shown->sh_degree : state->sh_degree;
    const int i = own(column_of(share, first_own) + first_of_warp()), j = own(first_own + first_of_warp());
    const vint splat = first + first_of_warp() + lane_id();
    const vbool exists = splat < n;
#ifdef DROPOUT
    const vbool drawn = exists & !is_dropped(shown ? shown->step : state->step, state->num_frozen, splat, dropout);
    const vfloat gain = select(splat < (int)state->num_frozen, vfloat(1.0f), vfloat(1.0f / (1.0f - dropout)));
#else
    const vbool drawn = exists;
    const vfloat gain = 1.0f;
#endif
    SplatInView view = {};
    const float* own_sigmas = smooth_3d_sigmas ? smooth_3d_sigmas + i : nullptr;
    const vbool visible = project_splat(params + i, capacity, drawn, camera, degree, antialias, own_sigmas, gain, view);
    store_own(depths + j, select(visible, view.depth, vfloat(0.0f)), exists);
    store4_own(colors + j, view.color, visible);
#ifdef SENT
    put_splats(slot, columns, rows, first_own + first_of_warp(), visible, view);
#else
    store2_own(means2d + j, view.x, view.y, visible);
    store4_own(conic_opacity + j, view.conic_opacity, visible);
    if (d_splats) clear_sums(d_splats, j, visible);
    list_splats(work, first, capacity, visible, view.ellipse, camera, view.depth, state, tile_counts, large_splats);
#endif
}
