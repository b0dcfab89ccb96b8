// Format in which a rank sends projected splats to another: an index, then only the splats that are visible in the view.
// A message holds the splats of one view, in words of 4 bytes:
//     number  [1]                        of visible splats, padded to 16 bytes
//     groups  [columns / 32]             VisibleGroup
//     splats  [rows, PROJECTED]          three arrays: conic and opacity; rgb and depth; mean2d
// columns: number of splats of a share, rounded up to blocks, the same for all ranks. Splats of a group have consecutive rows. The order
// of groups varies between runs, but no result depends on it. If a view has more visible splats than the message has rows, the rest is not
// sent, and the batch is repeated (`agree` in exchange.cu).
#pragma once
#include "numbers.cuh"
#include "common.cuh"

#ifdef SENT                         // with several ranks: the rows of d_splats are those of the messages
constexpr bool ROWS_ARE_SENT = true;
#else
constexpr bool ROWS_ARE_SENT = false;
#endif

#define PROJECTED 10                // floats per projected splat
#define GROUPS_AT 4                 // word of a message at which its groups begin

// 32 splats: a bit for each visible one, and the row of the first of these.
struct VisibleGroup { unsigned mask, begin; };

// Word of a message at which its splats begin. train/multi_gpu/sharded_views.py knows the same size.
__device__ __forceinline__ size_t splats_at(int columns) { return GROUPS_AT + columns / 16; }

__device__ __forceinline__ int num_visible(const float* __restrict__ message) { return *(const int*)message; }

// The messages of a view on the rank that renders it, one per rank. This rank's own message is where `project_share` has written it, the
// others are where they were received. train/multi_gpu/sharded_views.py mirrors this layout.
struct ViewMessages {
    unsigned long long own, received;   // addresses of one message, and of messages [num_ranks, stride]
    int stride;                         // floats per message
    int rank, num_ranks;
};
__device__ __forceinline__ const float* message_of(const ViewMessages& s, int rank)
{
    return rank == s.rank ? (const float*)s.own : (const float*)s.received + (size_t)rank * s.stride;
}

// Group that contains splat j of a share.
__device__ __forceinline__ VisibleGroup group_of(const float* __restrict__ message, int j)
{
    return ((const VisibleGroup*)(message + GROUPS_AT))[j / 32];
}

// Whether the lane's splat of a group has a row, and which row.
__device__ __forceinline__ vbool has_row(const VisibleGroup& group, vint lane)
{
    return test_each(lane, [=](int k) { return group.mask >> k & 1u; });
}
__device__ __forceinline__ vint row_of(const VisibleGroup& group, vint lane)
{
    return map_each(lane, [=](int k) { return (int)(group.begin + __popc(group.mask & ((1u << k) - 1u))); });
}
