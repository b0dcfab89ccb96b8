// From the projected splats of a rank's share to those that it sends of a view: the visible ones, in their order, with their index
// (visible.cuh), whose masks `project` has written. The order, and so every bit, is the same in each run. One warp owns 32 splats.
#include "lanes.cuh"
#include "raster/visible.cuh"

// Rows of the groups before `group`: those of its block, and those of the blocks before.
struct RowsBefore { unsigned in_block, in_blocks; };

// Of the first group of a block of threads. All of its threads call it.
__device__ __forceinline__ RowsBefore rows_before(
    int first_group, const VisibleGroup* __restrict__ groups, const unsigned* __restrict__ counts)
{
    __shared__ RowsBefore sums;
    const int block = first_group / GROUPS_OF_BLOCK, first_of_block = block * GROUPS_OF_BLOCK;
    BLOCK_FOR(k, 1) sums = {0, 0};
    __syncthreads();
    unsigned in_block = 0, in_blocks = 0;
    BLOCK_FOR(g, first_group - first_of_block) in_block += __popc(groups[first_of_block + g].mask);
    BLOCK_FOR(b, block) in_blocks += counts[b];
    if (in_block) atomicAdd(&sums.in_block, in_block);
    if (in_blocks) atomicAdd(&sums.in_blocks, in_blocks);
    __syncthreads();
    return sums;
}

// The first row of a block, and after the last one the number of rows.
__device__ __forceinline__ void store_begins(unsigned* begins, int block, int num_blocks, unsigned before, unsigned count)
{
    BLOCK_FOR(k, 1) {
        begins[block] = before;
        if (block == num_blocks - 1) begins[num_blocks] = before + count;
    }
}

extern "C" __global__ void send_splats(
    const IterState* __restrict__ state,    // [1]
    int columns, int rows,
    const unsigned* __restrict__ counts,    // [columns / RANK_BLOCK] number of rows of each block, from `project`
    const float* __restrict__ depths,       // [columns]
    const float2* __restrict__ means2d,     // [columns] px
    const float4* __restrict__ conic_opacity, // [columns] px^-2 (a, b, c), opacity
    const float4* __restrict__ colors,      // [columns] rgb, unused
    float* __restrict__ slot)               // its masks are complete; all else is written
{
    if (state->overflowed) return;
    const int first_group = blockIdx.x * blockDim.y, first = (first_group + threadIdx.y) * 32, j = own(first);
    VisibleGroup* const groups = (VisibleGroup*)(slot + groups_at(columns));
    const RowsBefore before = rows_before(first_group, groups, counts);
    const int block = first_group / GROUPS_OF_BLOCK;
    if (first_group % GROUPS_OF_BLOCK == 0) store_begins((unsigned*)slot, block, columns / RANK_BLOCK, before.in_blocks, counts[block]);
    VisibleGroup group = {groups[first_group + threadIdx.y].mask, before.in_block};
    for (int g = 0; g < (int)threadIdx.y; ++g) group.begin += __popc(groups[first_group + g].mask);
    if (leader()) groups[first_group + threadIdx.y].begin = group.begin;
    group.begin += before.in_blocks;
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
