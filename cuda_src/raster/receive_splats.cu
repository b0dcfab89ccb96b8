// From the projected splats that all ranks have sent to those of a view, as `project` leaves them. One lane owns one splat.
// A rank sends PROJECTED floats a splat: arrays of depth, mean2d, conic and opacity, rgb and one unused over `columns`, the number of
// its splats, rounded up, which is the same for each rank.
#include "raster/tile_walk.cuh"
#include "raster/share.cuh"
#include "raster/splat_sums.cuh"

extern "C" __global__ void receive_splats(
    const Camera* __restrict__ cameras,     // [num_views]
    IterState* __restrict__ state,          // [1] num_large is counted
    int capacity, int num_ranks, int columns,
    long long stride,                       // floats from rank to rank
    const float* __restrict__ received,     // [num_ranks, stride] PROJECTED arrays of a view
    float* __restrict__ depths,             // [capacity] z; 0 where invisible
    float2* __restrict__ means2d,           // [capacity] px
    float4* __restrict__ conic_opacity,     // [capacity] px^-2 (a, b, c), opacity
    float4* __restrict__ colors,            // [capacity] rgb, unused
    unsigned* __restrict__ tile_counts,     // [num_tiles] small splats that touch a tile are added
    unsigned* __restrict__ large_splats,    // [capacity] the others, num_large of them: for count_large_tiles
    float* __restrict__ d_splats)           // [capacity, SPLAT_SUMS] zeroed for visible splats
{
    __shared__ TileWork work;
    const int first = blockIdx.x * 32 * blockDim.y, n = state->num_splats;
    if (first >= n || state->overflowed) return;
    const Camera& camera = cameras[state->view];
    const float* part = received + rank_of(num_ranks, first) * stride;              // that of the whole block
    const int i = own(first + first_of_warp()), j = own(place_in_share(num_ranks, first) + first_of_warp());
    const vbool exists = first + first_of_warp() + lane_id() < n;
    const vfloat depth = load_own(part + j, exists);
    const vbool visible = exists & (depth > 0.0f);
    store_own(depths + i, depth, exists);
    const vfloat4 conic = load4_own((const float4*)(part + 3 * (size_t)columns) + j, visible);
    const vint mean = 2 * (place_in_share(num_ranks, first) + first_of_warp() + lane_id());
    const vfloat x = load(part + columns, mean, visible), y = load(part + columns, mean + 1, visible);
    store2_own(means2d + i, x, y, visible);
    store4_own(conic_opacity + i, conic, visible);
    store4_own(colors + i, load4_own((const float4*)(part + 7 * (size_t)columns) + j, visible), visible);
    clear_sums(d_splats, i, visible);
    Ellipse ellipse = {};
    if (some(visible)) ellipse = make_ellipse(x, y, conic);
    list_splats(work, first, capacity, visible, ellipse, camera, depth, state, tile_counts, large_splats);
}
