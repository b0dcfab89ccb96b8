// Two walks over the tiles that splats touch, used by the kernels that count these tiles and by those that list them.
//     for_each_tile             one warp shares the tiles of its 32 splats, all of them small
//     for_each_tile_of_large    one block shares the tiles of one large splat
// Neighbours in memory are neighbours in space. Without the second walk, a few warps would get all large splats, and the rest of the
// device would wait for them.
#pragma once
#include "lanes.cuh"
#include "raster/ellipse.cuh"

#define LARGE_BOX 64                // tiles; a splat is large if its bounding box has more
#define WORK_THREADS 256            // maximum block size
#define IN_FLIGHT 4                 // tiles that a lane visits at once, to overlap the latencies of their atomics

struct TileBatch {                  // argument of a visitor: up to IN_FLIGHT tiles of one splat
    vint splat;
    vfloat depth;
    vint tile[IN_FLIGHT];
    vbool on[IN_FLIGHT];            // whether the entry is used
};

struct TileWork {                   // in shared memory, one row per thread
    int count[WORK_THREADS], end[WORK_THREADS];         // pieces or tiles; their running sum over the warp
    float4 shape[WORK_THREADS], reach[WORK_THREADS];    // for_each_tile: the parts of the ellipse that tile_span needs
    int row[WORK_THREADS];                              // first tile of its box
    int column[WORK_THREADS], last_column[WORK_THREADS];
    float depth[WORK_THREADS];
    int offset[WORK_THREADS];                           // for_each_tile_of_large: index of a tile (LENS: its column) minus its place in the running sum
};

// Thread of the block that is lane 0 of this warp.
__device__ __forceinline__ int first_of_warp() { return 32 * threadIdx.y; }

__device__ __forceinline__ void put_ellipse(TileWork& work, int me, const Ellipse& e)
{
    const vfloat4 shape = {e.x, e.y, e.a, e.b}, reach = {e.det, e.reach, e.y_max, e.tilt_y};
    store4_own(work.shape + me, shape, true);
    store4_own(work.reach + me, reach, true);
}

__device__ __forceinline__ Ellipse get_ellipse(const TileWork& work, vint owner, vbool m)
{
    const vfloat4 shape = load4(work.shape, owner, m), reach = load4(work.reach, owner, m);
    Ellipse e = {};
    e.x = shape.x; e.y = shape.y; e.a = shape.z; e.b = shape.w;
    e.det = reach.x; e.reach = reach.y; e.y_max = reach.z; e.tilt_y = reach.w;
    return e;
}

// Fills the warp's part of `end` from `count` and returns the total. Synchronises the warp.
__device__ __forceinline__ int sum_over_warp(TileWork& work)
{
    const int warp = first_of_warp();
    __syncwarp();
    vint end = 0;
    for (int k = 0; k < 32; ++k) end += select(lane_id() >= k, vint(work.count[warp + k]), vint(0));
    store_own(work.end + own(warp), end, true);
    __syncwarp();
    return work.end[warp + 31];
}

// The warp's first thread whose running sum exceeds `at`.
__device__ __forceinline__ vint owner_of(const TileWork& work, vint at, vbool m)
{
    vint owner = first_of_warp();
    for (int half = 16; half > 0; half /= 2)
        owner += select(load(work.end, owner + (half - 1), m) <= at, vint(half), vint(0));
    return owner;
}

// Number of pieces of a row of tiles; 0 if the row is empty.
__device__ __forceinline__ vint pieces_of(vint columns) { return vmax(columns + (IN_FLIGHT - 1), 0) / IN_FLIGHT; }

// Calls visit(TileBatch) until all tiles that the block's splats touch have been visited. All lanes of a warp call it, thread i with
// splat first_splat + i; `listed`: whether to walk that splat's tiles.
//
// The rows of each bounding box are cut into pieces of IN_FLIGHT tiles, and each lane takes every 32nd piece of its warp's splats. For
// example, boxes of 2 x 5, 1 x 1 and 3 x 4 tiles (rows x columns) have 4, 1 and 3 pieces, with running sums 4, 5 and 8 in `end`. Piece 6
// belongs to the third splat, the first with end > 6. It is that splat's piece 6 - 5 = 1, the only one of row 1.
template <class F>
__device__ __forceinline__ void for_each_tile(
    TileWork& work, int first_splat, vbool listed, const Ellipse& e, const TileBox& box, const Camera& camera, vfloat depth, F visit)
{
    if (!any(listed)) return;                           // most warps, if few splats are visible
    const int me = own(first_of_warp());
    const vint rows = box.rows.end - box.rows.begin, columns = box.columns.end - box.columns.begin;
    store_own(work.count + me, select(listed, vmax(rows, 0) * pieces_of(columns), vint(0)), true);
    put_ellipse(work, me, e);
    store_own(work.row + me, box.rows.begin, true);
    store_own(work.column + me, box.columns.begin, true);
    store_own(work.last_column + me, box.columns.end - 1, true);
    store_own(work.depth + me, depth, true);
    const int total = sum_over_warp(work);
    for (vint at = lane_id(); some(at < total); at += 32) {
        const vbool on = at < total;
        const vint owner = owner_of(work, at, on), first_column = load(work.column, owner, on);
        const vint last_column = load(work.last_column, owner, on), pieces = pieces_of(last_column + 1 - first_column);
        const vint nth = at - (load(work.end, owner, on) - load(work.count, owner, on));
        const vint nth_row = to_int((to_float(nth) + 0.5f) * vrcp(to_float(pieces)));      // nth / pieces, exact up to LARGE_BOX
        const vint row = load(work.row, owner, on) + nth_row, begin = first_column + (nth - nth_row * pieces) * IN_FLIGHT;
        const Span span = tile_span(get_ellipse(work, owner, on), camera, row);
        TileBatch batch;
        batch.splat = first_splat + owner;
        batch.depth = load(work.depth, owner, on);
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; ++k) {
            const vint column = begin + k;
            batch.on[k] = on & (column >= span.begin) & (column < span.end) & (column <= last_column);
            batch.tile[k] = tile_at(camera, row, column);
        }
        visit(batch);
    }
}

// The same for one splat and a whole block of W warps. A warp takes every W-th row of tiles, each lane finds the span of one such row,
// and then the lanes share the tiles of these rows.
template <class F>
__device__ __forceinline__ void for_each_tile_of_large(
    TileWork& work, int splat, const Ellipse& e, const Camera& camera, float depth, F visit)
{
    const int me = own(first_of_warp()), num_warps = blockDim.y;
    const Span rows = tile_rows(e, camera);
    for (vint row = rows.begin + (int)threadIdx.y + num_warps * lane_id(); any(row < rows.end); row += 32 * num_warps) {
        Span span = {0, 0};
        const vbool inside = row < rows.end;
        if (some(inside)) span = tile_span(e, camera, row);
        __syncwarp();                                   // all lanes are done with the previous rows
        const vint count = select(inside, vmax(span.end - span.begin, 0), vint(0));
        store_own(work.count + me, count, true);
        const int total = sum_over_warp(work);
#ifdef LENS
        store_own(work.row + me, row, true);
        store_own(work.offset + me, span.begin - (load_own(work.end + me, true) - count), true);
#else
        store_own(work.offset + me, row * camera.tiles_x + span.begin - (load_own(work.end + me, true) - count), true);
#endif
        __syncwarp();
        for (int first = 0; first < total; first += 32 * IN_FLIGHT) {
            TileBatch batch;
            batch.splat = splat;
            batch.depth = depth;
#pragma unroll
            for (int k = 0; k < IN_FLIGHT; ++k) {
                const vint at = first + 32 * k + lane_id();
                batch.on[k] = at < total;
#ifdef LENS
                const vint owner = owner_of(work, at, batch.on[k]);
                batch.tile[k] = tile_at(camera, load(work.row, owner, batch.on[k]), load(work.offset, owner, batch.on[k]) + at);
#else
                batch.tile[k] = load(work.offset, owner_of(work, at, batch.on[k]), batch.on[k]) + at;
#endif
            }
            visit(batch);
        }
    }
}

// Adds 1 to the count of each tile of a batch.
__device__ __forceinline__ void count_tiles(unsigned* __restrict__ tile_counts /* [num_tiles, COUNT_STRIDE] */, const TileBatch& batch)
{
#pragma unroll
    for (int k = 0; k < IN_FLIGHT; ++k) atomic_add(tile_counts, batch.tile[k] * COUNT_STRIDE, 1, batch.on[k]);
}

// Counts the tiles of the block's small splats and queues its large splats. The block's thread i calls it with splat first + i.
__device__ __forceinline__ void list_splats(
    TileWork& work, int first, int capacity, vbool visible, const Ellipse& ellipse, const Camera& camera, vfloat depth,
    IterState* __restrict__ state /* counts num_large */, unsigned* __restrict__ tile_counts /* [num_tiles, COUNT_STRIDE] */,
    unsigned* __restrict__ large_splats /* [capacity] */)
{
    const vint splat = first + first_of_warp() + lane_id();
    TileBox box = {};
    if (some(visible)) box = tile_box(ellipse, camera);
    const vbool large = visible & (num_tiles_of(box) > LARGE_BOX);
    if (some(large)) {
        const vint place = append_index(&state->num_large, large);
        store(large_splats, place, splat, large & (place < capacity));  // true unless a caller forgot to clear the count
    }
    const vbool small = visible & !large;
    for_each_tile(work, first, small, ellipse, box, camera, depth, [&](const TileBatch& batch) { count_tiles(tile_counts, batch); });
}
