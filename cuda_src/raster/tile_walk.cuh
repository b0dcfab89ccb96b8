// Two walks over the tiles that splats touch, for kernels that count these tiles and kernels that list them.
// for_each_tile: a warp shares the tiles of its 32 splats, as long as they are small. for_each_tile_of_large: a block shares the
// tiles of one large splat. Neighbours in memory are neighbours in space, so that without the second walk a few warps would get
// all large splats and the rest of the device would wait for them.
#pragma once
#include "raster/ellipse.cuh"

#define LARGE_BOX 64                // tiles; a splat whose bounding box has more is large
#define WORK_THREADS 256            // of a block, at most
#define IN_FLIGHT 4                 // tiles that a lane visits at once, so that latencies of their atomics overlap
#define NO_TILE 0xffffffffu

struct TileBatch {                  // what a visitor is given: tiles of one splat; NO_TILE where there is none
    int splat;
    float depth;
    unsigned tile[IN_FLIGHT];
};

struct TileWork {                   // in shared memory, a row a thread
    unsigned count[WORK_THREADS], end[WORK_THREADS];    // pieces or tiles; their running sum over the warp
    Ellipse ellipse[WORK_THREADS];                      // for_each_tile: of the thread's splat
    TileBox box[WORK_THREADS];
    float depth[WORK_THREADS];
    unsigned offset[WORK_THREADS];                      // for_each_tile_of_large: from a place in the running sum to its tile
};

// Fills `end` of a warp from `count`, and returns the warp's total. Synchronises the warp.
__device__ __forceinline__ unsigned sum_over_warp(TileWork& work, int warp, int lane)
{
    __syncwarp();
    unsigned end = 0;
    for (int k = 0; k <= lane; ++k) end += work.count[warp + k];
    work.end[warp + lane] = end;
    __syncwarp();
    return work.end[warp + 31];
}

// The first thread of the warp whose running sum is past `at`.
__device__ __forceinline__ int owner_of(const TileWork& work, int warp, unsigned at)
{
    int owner = warp;
    for (int half = 16; half > 0; half /= 2) owner += work.end[owner + half - 1] <= at ? half : 0;
    return owner;
}

// Pieces of a row of tiles; 0 of an empty one.
__device__ __forceinline__ unsigned pieces_of(int columns) { return max(columns + IN_FLIGHT - 1, 0) / IN_FLIGHT; }

// Calls visit(TileBatch) until every tile that a splat of the block touches was in a batch. All threads of a block call it,
// thread i with splat first_splat + i; `listed`: whether this walk is for it. The rows of each splat's bounding box are cut into
// pieces of IN_FLIGHT tiles; each lane takes every 32nd piece of its warp's splats.
template <class F>
__device__ __forceinline__ void for_each_tile(
    TileWork& work, int first_splat, bool listed, const Ellipse& e, const TileBox& box, const Camera& camera, float depth, F visit)
{
    const int me = threadIdx.x, lane = me & 31, warp = me - lane;
    const int rows = box.rows.end - box.rows.begin, columns = box.columns.end - box.columns.begin;
    work.count[me] = listed ? max(rows, 0) * pieces_of(columns) : 0;
    work.ellipse[me] = e;
    work.box[me] = box;
    work.depth[me] = depth;
    const unsigned total = sum_over_warp(work, warp, lane);
    for (unsigned at = lane; at < total; at += 32) {
        const int owner = owner_of(work, warp, at);
        const TileBox owned = work.box[owner];
        const unsigned nth = at - (work.end[owner] - work.count[owner]), pieces = pieces_of(owned.columns.end - owned.columns.begin);
        const int row = owned.rows.begin + nth / pieces, begin = owned.columns.begin + nth % pieces * IN_FLIGHT;
        const Span span = tile_span(work.ellipse[owner], camera, row);
        TileBatch batch;
        batch.splat = first_splat + owner;
        batch.depth = work.depth[owner];
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; ++k) {
            const int column = begin + k;
            const bool touched = column >= span.begin && column < min(span.end, owned.columns.end);
            batch.tile[k] = touched ? row * camera.tiles_x + column : NO_TILE;
        }
        visit(batch);
    }
}

// The same for one splat and a whole block. Of W warps each takes every W-th row of tiles, and each lane the span of one of
// these; then the lanes share the tiles of the warp's rows.
template <class F>
__device__ __forceinline__ void for_each_tile_of_large(
    TileWork& work, int splat, const Ellipse& e, const Camera& camera, float depth, F visit)
{
    const int me = threadIdx.x, lane = me & 31, warp = me - lane, num_warps = blockDim.x / 32;
    const Span rows = tile_rows(e, camera);
    for (int first_row = rows.begin + warp / 32; first_row < rows.end; first_row += blockDim.x) {
        const int row = first_row + num_warps * lane;
        Span span = {0, 0};
        if (row < rows.end) span = tile_span(e, camera, row);
        __syncwarp();                                   // until all lanes are done with the rows before
        work.count[me] = max(span.end - span.begin, 0);
        const unsigned total = sum_over_warp(work, warp, lane);
        work.offset[me] = row * camera.tiles_x + span.begin - (work.end[me] - work.count[me]);
        __syncwarp();
        for (unsigned first = lane; first < total; first += 32 * IN_FLIGHT) {
            TileBatch batch;
            batch.splat = splat;
            batch.depth = depth;
#pragma unroll
            for (int k = 0; k < IN_FLIGHT; ++k) {
                const unsigned at = first + 32 * k;
                batch.tile[k] = at < total ? work.offset[owner_of(work, warp, at)] + at : NO_TILE;
            }
            visit(batch);
        }
    }
}
