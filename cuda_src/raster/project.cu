// Project every splat into the current view, and count the tiles it touches, or queue it where they are many.
// One thread owns one splat, blocks are independent. EWA splatting (Zwicker et al. 2001); colours by spherical harmonics.
#include "raster/tile_walk.cuh"
#include "raster/projection.cuh"
#include "raster/sh.cuh"
#include "raster/smoothing.cuh"

__device__ __forceinline__ float3 color_of(
    const float* __restrict__ params /* [rows, stride] */, size_t stride, int i, float3 direction, int degree)
{
    const float* sh0 = params + ROW_SH0 * stride + i;
    float3 color = make_vec(0.5f + SH_C0 * sh0[0], 0.5f + SH_C0 * sh0[stride], 0.5f + SH_C0 * sh0[2 * stride]);
    const float* shN = params + ROW_SHN * stride + i;
    sh_visit(degree, direction, [&](int k, float y, float3) {
        const float* c = shN + (size_t)(3 * (k - 1)) * stride;
        color = add(color, scale(y, make_vec(c[0], c[stride], c[2 * stride])));
    });
    return color;
}

// Whether this step goes without splat i; another choice each step (DropGaussian, Park et al. 2025, sec. 3.2).
__device__ __forceinline__ bool left_out(const IterState& state, int i, float dropout)
{
    return pcg(pcg((unsigned)state.step) + i) * (1.0f / 4294967296.0f) < dropout;
}

// Everything about splat i that the view needs; false where it is not seen. Comparisons are such that NaN fails them.
__device__ __forceinline__ bool project_splat(
    const float* __restrict__ params /* [rows, stride] */, size_t stride, int i, const Camera& camera, int degree, int antialias,
    const float* __restrict__ filters /* [1, stride] or null */, float& depth, float2& mean2d, float4& conic, float4& rgb,
    Ellipse& ellipse, float gain)
{
    const float3 mean = make_vec(params[i], params[stride + i], params[2 * stride + i]);
    if (!(to_camera(camera, mean).z > NEAR_PLANE)) return false;
    Gaussian g = load_gaussian(params, stride, i);
    if (filters) smooth(g, filters[i]);
    const Projected p = project_gaussian(g, camera, antialias);
    const float opacity = gain * g.opacity * compensation(p, antialias);
    if (!(opacity > ALPHA_MIN) || !(p.det > 0.0f) || !(p.det < 1e30f)) return false;
    depth = p.t.z;
    mean2d.x = camera.fx * p.t.x / p.t.z + camera.cx;
    mean2d.y = camera.fy * p.t.y / p.t.z + camera.cy;
    if (!(fabsf(mean2d.x) + fabsf(mean2d.y) < 1e9f)) return false;
    conic.x = p.c / p.det; conic.y = -p.b / p.det; conic.z = p.a / p.det; conic.w = opacity;
    ellipse = make_ellipse(mean2d, conic);
    if (!touches_tiles(ellipse, camera)) return false;

    const float3 ray = sub(mean, make_vec(camera.position[0], camera.position[1], camera.position[2]));
    const float3 color = color_of(params, stride, i, scale(rsqrtf(dot(ray, ray)), ray), degree);
    rgb.x = fmaxf(color.x, 0.0f); rgb.y = fmaxf(color.y, 0.0f); rgb.z = fmaxf(color.z, 0.0f); rgb.w = 0.0f;
    return fabsf(color.x) + fabsf(color.y) + fabsf(color.z) < 1e9f;     // before fmaxf, which turns NaN into 0
}

extern "C" __global__ void project(
    const float* __restrict__ params,       // [rows, capacity]
    int capacity,
    const Camera* __restrict__ cameras,     // [num_views]
    IterState* __restrict__ state,          // [1] num_visible and num_large are counted
    int antialias,                          // 0 or 1
    float* __restrict__ depths,             // [capacity] z; 0 where invisible
    float2* __restrict__ means2d,           // [capacity] px
    float4* __restrict__ conic_opacity,     // [capacity] px^-2 (a, b, c), opacity
    float4* __restrict__ colors,            // [capacity] rgb, unused
    unsigned* __restrict__ tile_counts,     // [num_tiles] small splats that touch a tile are added
    unsigned* __restrict__ large_splats,    // [capacity] the others, num_large of them: for count_large_tiles
    float* __restrict__ d_splats,           // [capacity, SPLAT_SUMS] zeroed for visible splats; may be null
    const float* __restrict__ filters,      // [1, capacity] see smoothing.cuh; may be null
    float dropout)                          // share of splats to leave out; the others' opacities make up for them; with DROPOUT
{
    __shared__ TileWork work;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int n = state->num_splats;
    if ((int)(blockIdx.x * blockDim.x) >= n || state->overflowed) return;
    const Camera& camera = cameras[state->view];
    float depth = 0.0f;
    float2 mean2d;
    float4 conic, rgb;
    Ellipse ellipse = {};
#ifdef DROPOUT
    const bool drawn = i < n && !left_out(*state, i, dropout);
    const float gain = 1.0f / (1.0f - dropout);
#else
    const bool drawn = i < n;
    const float gain = 1.0f;
#endif
    const bool visible = drawn
        && project_splat(params, capacity, i, camera, state->sh_degree, antialias, filters, depth, mean2d, conic, rgb, ellipse, gain);
    if (i < n) depths[i] = visible ? depth : 0.0f;
    if (visible) {
        means2d[i] = mean2d;
        conic_opacity[i] = conic;
        colors[i] = rgb;
        atomicAdd(&state->num_visible, 1u);
        if (d_splats)
            for (int k = 0; k < SPLAT_SUMS; ++k) d_splats[(size_t)i * SPLAT_SUMS + k] = 0.0f;
    }
    TileBox box = {};
    if (visible) box = tile_box(ellipse, camera);
    const bool large = num_tiles_of(box) > LARGE_BOX;
    if (large) {
        const unsigned place = atomicAdd(&state->num_large, 1u);
        if (place < (unsigned)capacity) large_splats[place] = i;        // always, unless a caller forgot to clear the count
    }
    for_each_tile(work, blockIdx.x * blockDim.x, !large, ellipse, box, camera, depth, [&](const TileBatch& batch) {
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; ++k)
            if (batch.tile[k] != NO_TILE) atomicAdd(&tile_counts[batch.tile[k]], 1u);
    });
}
