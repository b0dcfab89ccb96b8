// Segments of tiles for blend_backward, one block each. GPUs start blocks in order, so blend lists segments by the number of their hits,
// most first, and the last blocks to end are short ones (longest processing time first, Graham 1969). Bins suffice for the order.
#pragma once
#include "common.cuh"

#define COUNTED_SEGMENTS 16         // of a tile; the hits of later ones are added to those of the last

// Bin of a segment with that many hits by warps of 8x8 pixels, at most 4 * SEGMENT.
__device__ __forceinline__ int bin_of(unsigned hits) { return hits >= 512 ? 0 : hits >= 256 ? 1 : hits >= 128 ? 2 : 3; }

__device__ __forceinline__ void list_segment(
    IterState* state /* [1] */, uint2* segments /* [SEGMENT_BINS, max_segments] */, unsigned max_segments, unsigned hits, uint2 segment)
{
    const int bin = bin_of(hits);
    segments[bin * max_segments + atomicAdd(&state->segments_in_bins[bin], 1u)] = segment;
}

// Finds the segment of a block. False: it has none.
__device__ __forceinline__ bool segment_of(
    const IterState& state, const uint2* segments /* [SEGMENT_BINS, max_segments] */, unsigned max_segments, unsigned block, uint2& segment)
{
    for (int bin = 0; bin < SEGMENT_BINS; ++bin) {
        const unsigned num = state.segments_in_bins[bin];
        if (block < num) { segment = segments[bin * max_segments + block]; return true; }
        block -= num;
    }
    return false;
}
