// Loss on opacity in free space: a ray from a camera to a point that it sees is free until shortly before the point.
//
// Take the splats in the point's pixel whose depth is less than REACH times the point's, with alpha_i = opacity_i exp(power_i). The
// opacity of the ray, in any order of the splats, is
//     O = 1 - (1 - alpha_1) (1 - alpha_2) ...
// and the loss is weight * (mean of O^2 over the view's points). So
//     dL/dpower_i = g_i = alpha_i 2 weight / num_points O (1 - O) / (1 - alpha_i)        0 if alpha_i was clipped
// The moments of g_i are added to the sums of blend_backward.
// Launched by splat_cli/joint/depth/free_space.py. The same in plain NumPy: tests/reference/free_space.py.
#include "common.cuh"
#include "lanes.cuh"
#include "raster/fixed.cuh"

#define REACH 0.8f                  // free space ends at this fraction of the point's depth
#define SURFACE 0.1f                // a splat is at the point if their depths differ by less than this fraction

struct Ray {                        // from the camera through the point's pixel
    float x, y;                     // centre of the pixel
    float end;                      // depth at which free space ends
    unsigned begin_pair, end_pair;  // list of the tile, sorted by depth
};

struct Hit {                        // one splat per lane on a ray
    vint splat;
    vfloat dx, dy;                  // pixel - mean2d
    vfloat falloff;                 // exp(power)
    vfloat alpha, unclipped;        // opacity times falloff
    vbool on;                       // touches the pixel, and its mean lies in free space
};

// Loads splats `first`, `first` + 1, ... of the pairs of the ray's tile. beyond: whether one of them lies behind free space.
__device__ __forceinline__ Hit load_hit(
    const Ray& ray, unsigned first, const unsigned* __restrict__ splat_from_pair /* [pair_capacity] */,
    const float* __restrict__ depths /* [capacity] */, const float2* __restrict__ means2d /* [capacity] */,
    const float4* __restrict__ conic_opacity /* [capacity] */, bool& beyond)
{
    Hit hit;
    const vbool listed = lane_id() < (int)(ray.end_pair - first);
    hit.splat = load_row(splat_from_pair + first, listed);
    const vbool near = listed & (load(depths, hit.splat, listed) < ray.end);
    beyond = any(listed & !near);
    const float* const means = (const float*)means2d;
    hit.dx = ray.x - load(means, 2 * hit.splat, near);
    hit.dy = ray.y - load(means, 2 * hit.splat + 1, near);
    const vfloat4 q = load4(conic_opacity, hit.splat, near);
    const vfloat power = -0.5f * (q.x * hit.dx * hit.dx + q.z * hit.dy * hit.dy) - q.y * hit.dx * hit.dy;
    hit.falloff = vexp(power);
    hit.unclipped = q.w * hit.falloff;
    hit.alpha = vmin(hit.unclipped, vfloat(ALPHA_MAX));
    hit.on = near & (hit.unclipped >= 1.0f / 255.0f);
    return hit;
}

// The ray to a point that is seen at `pixel` (row * width + column), up to depth `end`.
__device__ __forceinline__ Ray make_ray(const Camera& camera, int pixel, float end, const unsigned* __restrict__ tile_begins /* [num_tiles + 1] */)
{
    const int row = pixel / camera.width, column = pixel % camera.width;
    const int tile = row / TILE * camera.tiles_x + column / TILE;
    return {column + 0.5f, row + 0.5f, end, tile_begins[tile], tile_begins[tile + 1]};
}

// Adds `value` to sum k of the lane's splat, if it is hit.
__device__ __forceinline__ void add_sum(
    float* __restrict__ d_splats /* [capacity, SPLAT_SUMS] */, int k, vfloat value, const Hit& hit,
    const float4* __restrict__ conic_opacity /* [capacity] */, int num_pixels)
{
    for_each(hit.splat, value, hit.on, [=](int splat, float v) {
#ifdef FIXED_SUMS
        unsigned long long* const row = (unsigned long long*)d_splats + (size_t)splat * SPLAT_SUMS;
        if (!add_fixed(row + k, v / fixed_unit(k, conic_opacity[splat], num_pixels) * FIXED_ONE)) atomicAdd(row + FIXED_POISON, 1ull);
#else
        atomicAdd(d_splats + (size_t)splat * SPLAT_SUMS + k, v);
#endif
    });
}

// One warp owns one point. It walks the list of the point's tile, 32 splats at a time, to the end of free space. If there is opacity
// and d_splats is given, it walks a second time and adds the gradients.
extern "C" __global__ void free_space(
    const Camera* __restrict__ cameras,             // [num_views]
    const IterState* __restrict__ state,            // [1]
    const int* __restrict__ begins,                 // [num_views + 1] range of each view's points
    const int* __restrict__ pixels,                 // [num_points of all views] row * width + column
    const float* __restrict__ inverse_depths,       // [num_points of all views] 1/z
    float weight,
    const unsigned* __restrict__ tile_begins,       // [num_tiles + 1]
    const unsigned* __restrict__ splat_from_pair,   // [pair_capacity] sorted by tile, then by depth
    const float* __restrict__ depths,               // [capacity] z
    const float2* __restrict__ means2d,             // [capacity] px
    const float4* __restrict__ conic_opacity,       // [capacity] conic in px^-2, opacity
    float* __restrict__ opacities,                  // [num_points of all views] set for this view; may be null
    float* __restrict__ d_splats)                   // [capacity, SPLAT_SUMS] accumulated, as by blend_backward; may be null
{
    if (state->overflowed) return;
    const int first_point = begins[state->view], num_points = begins[state->view + 1] - first_point;
    const int own_point = blockIdx.x * blockDim.y + threadIdx.y;
    if (own_point >= num_points) return;
    const int point = first_point + own_point;
    const Camera& camera = cameras[state->view];
    const Ray ray = make_ray(camera, pixels[point], REACH / inverse_depths[point], tile_begins);

    vfloat left = 1.0f;                             // transmittance of the lane's splats
    bool beyond = false;
    unsigned end = ray.begin_pair;
    for (; end < ray.end_pair && !beyond; end += 32) {
        const Hit hit = load_hit(ray, end, splat_from_pair, depths, means2d, conic_opacity, beyond);
        left = left * select(hit.on, 1.0f - hit.alpha, vfloat(1.0f));
    }
    const float transmittance = warp_product(left), opacity = 1.0f - transmittance;
    if (opacities && leader()) opacities[point] = opacity;
    if (!d_splats || opacity == 0.0f) return;

    const float d_log_left = 2.0f * weight / num_points * opacity * transmittance;
    for (unsigned first = ray.begin_pair; first < end; first += 32) {
        const Hit hit = load_hit(ray, first, splat_from_pair, depths, means2d, conic_opacity, beyond);
        if (!any(hit.on)) continue;
        const vfloat g = select(hit.unclipped < ALPHA_MAX, d_log_left * hit.alpha * vrcp(1.0f - hit.alpha), vfloat(0.0f));
        const vfloat gx = g * hit.dx, gy = g * hit.dy;
        const vfloat sums[] = {g, gx, gy, gx * hit.dx, gx * hit.dy, gy * hit.dy};
        for (int k = 0; k < SUM_RED; ++k) add_sum(d_splats, k, sums[k], hit, conic_opacity, camera.num_pixels);
    }
}

// Counts the rays that hit each splat, weighted by its falloff at the ray. One warp owns one point.
extern "C" __global__ void count_rays(
    const Camera* __restrict__ cameras,             // [num_views]
    const IterState* __restrict__ state,            // [1]
    const int* __restrict__ begins,                 // [num_views + 1] range of each view's points
    const int* __restrict__ pixels,                 // [num_points of all views] row * width + column
    const float* __restrict__ inverse_depths,       // [num_points of all views] 1/z
    const int* __restrict__ is_clear,               // [num_points of all views] whether the photograph shows the point
    const unsigned* __restrict__ tile_begins,       // [num_tiles + 1]
    const unsigned* __restrict__ splat_from_pair,   // [pair_capacity] sorted by tile, then by depth
    const float* __restrict__ depths,               // [capacity] z
    const float2* __restrict__ means2d,             // [capacity] px
    const float4* __restrict__ conic_opacity,       // [capacity] conic in px^-2, opacity
    float* __restrict__ counts)                     // [capacity, 3] accumulated: clear rays that pass in free space, other rays that pass, rays that end here
{
    if (state->overflowed) return;
    const int first_point = begins[state->view], num_points = begins[state->view + 1] - first_point;
    const int own_point = blockIdx.x * blockDim.y + threadIdx.y;
    if (own_point >= num_points) return;
    const int point = first_point + own_point;
    const float inverse_depth = inverse_depths[point];
    const Ray ray = make_ray(cameras[state->view], pixels[point], (1.0f + SURFACE) / inverse_depth, tile_begins);
    const int before = is_clear[point] ? 0 : 1;
    bool beyond = false;
    for (unsigned first = ray.begin_pair; first < ray.end_pair && !beyond; first += 32) {
        const Hit hit = load_hit(ray, first, splat_from_pair, depths, means2d, conic_opacity, beyond);
        const vfloat share = load(depths, hit.splat, hit.on) * inverse_depth;
        const auto add = [=](int column, vbool m) {
            for_each(hit.splat, hit.falloff, m, [=](int splat, float v) { atomicAdd(counts + 3 * (size_t)splat + column, v); });
        };
        add(before, hit.on & (share < REACH));
        add(2, hit.on & (share > 1.0f - SURFACE));
    }
}
