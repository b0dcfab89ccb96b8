// Unpacks the projected splats that all ranks have sent for a view (visible.cuh) into the arrays that `project` fills without ranks.
// One lane owns one splat.
// Launched by splat_cli/train/multi_gpu/sharded_views.py.
#include "raster/tile_walk.cuh"
#include "raster/splat_sums.cuh"
#include "raster/visible.cuh"

extern "C" __global__ void receive_splats(
    const Camera* __restrict__ cameras,     // [num_views]
    IterState* __restrict__ state,          // [1] counts num_large
    int capacity, int columns, int rows,
    ViewMessages messages,
    float* __restrict__ depths,             // [capacity] z; 0 if invisible
    float2* __restrict__ means2d,           // [capacity] px
    float4* __restrict__ conic_opacity,     // [capacity] conic (a, b, c) in px^-2, opacity
    float4* __restrict__ colors,            // [capacity] rgb, unused
    unsigned* __restrict__ tile_counts,     // [num_tiles, COUNT_STRIDE] accumulated: small splats that touch each tile
    unsigned* __restrict__ large_splats,    // [capacity] num_large large splats, for count_large_tiles
    float* __restrict__ d_splats)           // [capacity, SPLAT_SUMS] zeroed for visible splats
{
    __shared__ TileWork work;
    const int first = blockIdx.x * 32 * blockDim.y, n = state->num_splats;
    if (first >= n || state->overflowed) return;
    const Camera& camera = cameras[state->view];
    const float* const message = message_of(messages, rank_of(messages.num_ranks, first));      // the same for the whole block
    const VisibleGroup group = group_of(message, place_in_share(messages.num_ranks, first) + first_of_warp());
    const int i = own(first + first_of_warp());
    const vbool exists = first + first_of_warp() + lane_id() < n;
    const vint row = row_of(group, lane_id());
    const vbool visible = exists & has_row(group, lane_id()) & (row < rows);
    const float4* const conics = (const float4*)(message + splats_at(columns));
    const float* const means = (const float*)(conics + 2 * (size_t)rows);
    const vfloat4 conic = load4(conics, row, visible);
    vfloat4 color = load4(conics + rows, row, visible);
    const vfloat depth = select(visible, color.w, vfloat(0.0f));
    const vfloat x = load(means, 2 * row, visible), y = load(means, 2 * row + 1, visible);
    color.w = 0.0f;
    store_own(depths + i, depth, exists);
    store2_own(means2d + i, x, y, visible);
    store4_own(conic_opacity + i, conic, visible);
    store4_own(colors + i, color, visible);
    clear_sums(d_splats, i, visible);
    Ellipse ellipse = {};
    if (some(visible)) ellipse = make_ellipse(x, y, conic);
    list_splats(work, first, capacity, visible, ellipse, camera, depth, state, tile_counts, large_splats);
}
