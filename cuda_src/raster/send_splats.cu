// From the projected splats of a rank's share to those that it sends of a view: the visible ones, in their order, with their index
// (visible.cuh). No atomics: the order, and so every bit, is the same in each run. One warp owns 32 splats.
// find_visible; number_visible (exchange.cu); send_splats.
#include "lanes.cuh"
#include "raster/visible.cuh"

// One block owns RANK_BLOCK splats.
extern "C" __global__ void find_visible(
    const IterState* __restrict__ state,    // [1]
    Share share, int columns,
    const float* __restrict__ depths,       // [columns] 0 where invisible
    float* __restrict__ slot)               // groups; in place of first rows, the number of rows of each block
{
    __shared__ unsigned masks[GROUPS_OF_BLOCK];
    if (state->overflowed) return;
    const int first_own = blockIdx.x * RANK_BLOCK, first = splat_of(share, first_own), n = state->num_splats;
    for (int g = threadIdx.y; g < GROUPS_OF_BLOCK; g += blockDim.y) {
        const vbool exists = first + 32 * g + lane_id() < n;
        const unsigned mask = ballot(exists & (load_own(depths + own(first_own + 32 * g), exists) > 0.0f));
        if (leader()) masks[g] = mask;
    }
    __syncthreads();
    VisibleGroup* const groups = (VisibleGroup*)(slot + groups_at(columns)) + first_own / 32;
    BLOCK_FOR(g, GROUPS_OF_BLOCK) {
        unsigned begin = 0;
        for (int k = 0; k < g; ++k) begin += __popc(masks[k]);
        groups[g].mask = masks[g];
        groups[g].begin = begin;
        if (g == GROUPS_OF_BLOCK - 1) ((unsigned*)slot)[blockIdx.x] = begin + __popc(masks[g]);
    }
}

extern "C" __global__ void send_splats(
    const IterState* __restrict__ state,    // [1]
    int columns, int rows,
    const float* __restrict__ depths,       // [columns]
    const float2* __restrict__ means2d,     // [columns] px
    const float4* __restrict__ conic_opacity, // [columns] px^-2 (a, b, c), opacity
    const float4* __restrict__ colors,      // [columns] rgb, unused
    float* __restrict__ slot)               // its index is complete; splats are written
{
    if (state->overflowed) return;
    const int first = (blockIdx.x * blockDim.y + threadIdx.y) * 32, j = own(first);
    const VisibleGroup group = group_of(slot, columns, first);
    const vint row = row_of(group, lane_id());
    const vbool sent = has_row(group, lane_id()) & (row < rows);
    if (!some(sent)) return;
    float4* const conics = (float4*)(slot + splats_at(columns));
    float* const means = (float*)(conics + 2 * (size_t)rows);
    vfloat4 color = load4_own(colors + j, sent);
    color.w = load_own(depths + j, sent);
    vfloat x, y;
    load2_own(means2d + j, x, y, sent);
    store4(conics, row, load4_own(conic_opacity + j, sent), sent);
    store4(conics + rows, row, color, sent);
    store(means, 2 * row, x, sent);
    store(means, 2 * row + 1, y, sent);
}
