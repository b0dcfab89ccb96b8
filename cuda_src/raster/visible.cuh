// Exchange of projected splats between two ranks: only those that are visible in a view are sent, preceded by an index of them.
// A slot, the memory of a view's splats, has three parts, in words of 4 bytes:
//     number  [1]                        of visible splats. Padded to 16 bytes
//     groups  [columns / 32]             VisibleGroup
//     splats  [rows, PROJECTED]          as arrays of conic and opacity, of rgb and depth, and of mean2d
// `columns`: the number of a share's splats, rounded up to blocks, the same for each rank. Splats of a group have consecutive rows; the
// order of groups varies from run to run, and no result depends on it. A slot may have fewer rows than its view has visible splats:
// those beyond are not sent, and the batch is repeated (agree in exchange.cu).
#pragma once
#include "numbers.cuh"
#include "raster/share.cuh"

#define PROJECTED 10                // floats of a projected splat
#define GROUPS_AT 4                 // word of a slot at which its groups begin

// Of 32 splats: a bit for each that is visible; the row of the first of these.
struct VisibleGroup { unsigned mask, begin; };

// Where the splats of a slot begin. train/ranked/exchange.py has the same size.
__device__ __forceinline__ size_t splats_at(int columns) { return GROUPS_AT + columns / 16; }

__device__ __forceinline__ int num_visible(const float* __restrict__ slot) { return *(const int*)slot; }

// The slots of a view on the rank that renders it, one from each rank: that of its own splats where `project_share` has written it, the others
// where they are received. train/ranked/exchange.py mirrors this layout.
struct ViewSlots {
    unsigned long long own, received;   // addresses of a slot, and of slots [num_ranks, stride]
    int stride;                         // floats
    int rank, num_ranks;
};
__device__ __forceinline__ const float* slot_of(const ViewSlots& s, int rank)
{
    return rank == s.rank ? (const float*)s.own : (const float*)s.received + (size_t)rank * s.stride;
}

// The group of splat j of a share.
__device__ __forceinline__ VisibleGroup group_of(const float* __restrict__ slot, int j)
{
    return ((const VisibleGroup*)(slot + GROUPS_AT))[j / 32];
}

// Of its lanes: which ones have a row, of `rows`; that row.
__device__ __forceinline__ vbool has_row(const VisibleGroup& group, vint lane)
{
    return test_each(lane, [=](int k) { return group.mask >> k & 1u; });
}
__device__ __forceinline__ vint row_of(const VisibleGroup& group, vint lane)
{
    return map_each(lane, [=](int k) { return (int)(group.begin + __popc(group.mask & ((1u << k) - 1u))); });
}
