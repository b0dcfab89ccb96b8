// Projects all splats into the current view and counts per tile the splats that touch it. Splats with a large bounding box are queued
// for count_large_tiles instead. One lane owns one splat; blocks are independent.
// Launched by splat_cli/render/project.py. The same in plain NumPy: tests/reference/project.py.
#include "raster/tile_walk.cuh"
#include "raster/project_splat.cuh"
#include "raster/splat_sums.cuh"

#ifdef LENS                         // 64 registers instead of 71: 32 warps instead of 24 run on a multiprocessor
extern "C" __global__ void __launch_bounds__(256, 4) project(
#else
extern "C" __global__ void project(
#endif
    const float* __restrict__ params,       // [rows, capacity]
    int capacity,
    const Camera* __restrict__ cameras,     // [num_views]
    IterState* __restrict__ state,          // [1] counts num_large
    int antialias,                          // 0 or 1
    float dropout,                          // fraction of splats to drop; only with DROPOUT
    const float* __restrict__ smooth_3d_sigmas, // [1, capacity] see projection.cuh; may be null
    float* __restrict__ depths,             // [capacity] z; 0 if invisible
    float2* __restrict__ means2d,           // [capacity] px
    float4* __restrict__ conic_opacity,     // [capacity] conic (a, b, c) in px^-2, opacity
    float4* __restrict__ colors,            // [capacity] rgb, unused
    unsigned* __restrict__ tile_counts,     // [num_tiles, COUNT_STRIDE] accumulated: small splats that touch each tile
    unsigned* __restrict__ large_splats,    // [capacity] num_large large splats, for count_large_tiles
    float* __restrict__ d_splats)           // [capacity, SPLAT_SUMS] zeroed for visible splats; may be null
{
    __shared__ TileWork work;
    const int first = blockIdx.x * 32 * blockDim.y, n = state->num_splats;
    if (first >= n || state->overflowed) return;
    const Camera& camera = cameras[state->view];
    const int i = own(first + first_of_warp());
    const vint splat = first + first_of_warp() + lane_id();
    const vbool exists = splat < n;
    vfloat gain;
    const vbool kept = apply_dropout(splat, exists, state->step, state->num_frozen, dropout, gain);
    SplatInView projected = {};
    const float* own_sigmas = smooth_3d_sigmas ? smooth_3d_sigmas + i : nullptr;
    const vbool visible = project_splat(params + i, capacity, kept, camera, state->sh_degree, antialias, own_sigmas, gain, projected);
    store_own(depths + i, select(visible, projected.depth, vfloat(0.0f)), exists);
    store4_own(colors + i, projected.color, visible);
    store2_own(means2d + i, projected.x, projected.y, visible);
    store4_own(conic_opacity + i, projected.conic_opacity, visible);
    if (d_splats) clear_sums(d_splats, i, visible);
    list_splats(work, first, capacity, visible, projected.ellipse, camera, projected.depth, state, tile_counts, large_splats);
}
