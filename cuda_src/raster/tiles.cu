// From projected splats to the ranges of each tile's list. project has counted the tiles of small splats, count_large_tiles adds
// those of large ones; scan_tiles turns counts into ranges, emit_tiles fills these in any order, for sort_tiles.
// count_large_tiles: a block owns a large splat at a time. scan_tiles: one block owns all tiles. emit_tiles: the first
// `num_large_blocks` blocks own a large splat at a time, in each further one a thread owns a splat.
#include "raster/tile_walk.cuh"

typedef unsigned long long Key;     // depth bits, then splat: positive floats order as their bits do

// Calls visit(TileBatch) for the tiles of all large splats, shared out over `num_blocks` blocks, of which this is one.
template <class F>
__device__ __forceinline__ void for_each_large_tile(
    TileWork& work, int block, int num_blocks, const Camera& camera, unsigned num_large,
    const unsigned* __restrict__ large_splats,  // [num_large]
    const float* __restrict__ depths, const float2* __restrict__ means2d, const float4* __restrict__ conic_opacity, F visit)
{
    for (unsigned k = block; k < num_large; k += num_blocks) {
        const unsigned i = large_splats[k];
        for_each_tile_of_large(work, i, make_ellipse(means2d[i], conic_opacity[i]), camera, depths[i], visit);
    }
}

extern "C" __global__ void count_large_tiles(
    const Camera* __restrict__ cameras,         // [num_views]
    const IterState* __restrict__ state,    // [1]
    unsigned capacity,
    const unsigned* __restrict__ large_splats,  // [capacity] num_large of them
    const float* __restrict__ depths,           // [capacity] 0 where invisible
    const float2* __restrict__ means2d,         // [capacity] px
    const float4* __restrict__ conic_opacity,   // [capacity]
    unsigned* __restrict__ tile_counts)         // [num_tiles] large splats that touch a tile are added
{
    __shared__ TileWork work;
    if (state->overflowed) return;
    const unsigned num_large = min(state->num_large, capacity);
    for_each_large_tile(work, blockIdx.x, gridDim.x, cameras[state->view], num_large, large_splats, depths, means2d, conic_opacity,
        [&](const TileBatch& batch) {
#pragma unroll
            for (int k = 0; k < IN_FLIGHT; ++k)
                if (batch.tile[k] != NO_TILE) atomicAdd(&tile_counts[batch.tile[k]], 1u);
        });
}

#define NUM_LENGTHS 128

// Lists of nearly the same length, four classes to a power of two. Long lists go first, so that no block starts late on one.
__device__ __forceinline__ int length_class(unsigned n)
{
    const int e = 31 - __clz((int)n | 1);
    return e < 2 ? (int)n : 4 * e + (int)(n >> (e - 2) & 3u);
}

extern "C" __global__ void scan_tiles(
    const Camera* __restrict__ cameras,         // [num_views]
    IterState* __restrict__ state,          // [1] num_pairs, needed_pairs; overflowed where they do not fit
    const unsigned* __restrict__ tile_counts,   // [num_tiles]
    unsigned pair_capacity,
    unsigned* __restrict__ tile_begins,         // [num_tiles + 1] tile t owns pairs tile_begins[t] .. tile_begins[t + 1]
    unsigned* __restrict__ tile_order)          // [num_tiles] tiles, about the longest lists first
{
    __shared__ unsigned long long sums[256];    // of 64 bits: pairs that 32 bits cannot count must not seem to fit
    __shared__ unsigned places[NUM_LENGTHS];
    if (state->overflowed) return;
    const Camera& camera = cameras[state->view];
    const unsigned num_tiles = camera.tiles_x * camera.tiles_y, share = (num_tiles + blockDim.x - 1) / blockDim.x;
    const unsigned begin = min(threadIdx.x * share, num_tiles), end = min(begin + share, num_tiles);
    for (unsigned k = threadIdx.x; k < NUM_LENGTHS; k += blockDim.x) places[k] = 0;
    __syncthreads();
    unsigned long long sum = 0;
    for (unsigned t = begin; t < end; ++t) {
        sum += tile_counts[t];
        atomicAdd(&places[length_class(tile_counts[t])], 1u);
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned first = 0;
        for (int k = NUM_LENGTHS - 1; k >= 0; --k) { const unsigned n = places[k]; places[k] = first; first += n; }
    }
    unsigned long long before = 0, total = 0;   // every thread adds up its predecessors: one barrier, no tree
    for (unsigned t = 0; t < blockDim.x; ++t) {
        before += t < threadIdx.x ? sums[t] : 0;
        total += sums[t];
    }
    for (unsigned t = begin; t < end; ++t) {
        tile_begins[t] = (unsigned)before;
        before += tile_counts[t];
    }
    __syncthreads();
    for (unsigned t = begin; t < end; ++t) tile_order[atomicAdd(&places[length_class(tile_counts[t])], 1u)] = t;
    if (threadIdx.x == 0) {
        const bool fits = total <= pair_capacity;
        tile_begins[num_tiles] = (unsigned)total;
        state->num_pairs = fits ? (unsigned)total : 0;
        state->needed_pairs = (unsigned)min(total, 0xffffffffull);
        if (!fits) state->overflowed = 1;
    }
}

extern "C" __global__ void emit_tiles(
    const Camera* __restrict__ cameras,         // [num_views]
    const IterState* __restrict__ state,    // [1]
    unsigned capacity,
    int num_large_blocks,
    const unsigned* __restrict__ large_splats,  // [capacity] num_large of them
    const float* __restrict__ depths,           // [capacity] 0 where invisible
    const float2* __restrict__ means2d,         // [capacity] px
    const float4* __restrict__ conic_opacity,   // [capacity]
    const unsigned* __restrict__ tile_begins,   // [num_tiles + 1]
    unsigned* __restrict__ tile_counts,         // [num_tiles] counted down to 0, ready for the next view
    Key* __restrict__ keys)                     // [pair_capacity]
{
    __shared__ TileWork work;
    if (state->overflowed) return;
    const Camera& camera = cameras[state->view];
    const auto emit = [&](const TileBatch& batch) {
        const Key key = (Key)__float_as_uint(batch.depth) << 32 | (unsigned)batch.splat;
        int left[IN_FLIGHT];                    // places of the tile's range, this one included
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; ++k)
            if (batch.tile[k] != NO_TILE) left[k] = (int)atomicSub(&tile_counts[batch.tile[k]], 1u);
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; ++k) {
            if (batch.tile[k] == NO_TILE) continue;
            if (left[k] > 0) keys[tile_begins[batch.tile[k]] + left[k] - 1] = key;
            else atomicAdd(&tile_counts[batch.tile[k]], 1u);    // not counted: never, while both walks find the same tiles
        }
    };
    if ((int)blockIdx.x < num_large_blocks) {
        const unsigned num_large = min(state->num_large, capacity);
        for_each_large_tile(work, blockIdx.x, num_large_blocks, camera, num_large, large_splats, depths, means2d, conic_opacity, emit);
        return;
    }
    const int first = (blockIdx.x - num_large_blocks) * blockDim.x, i = first + threadIdx.x, n = state->num_splats;
    if (first >= n) return;
    const float depth = i < n ? depths[i] : 0.0f;
    Ellipse e = {};
    TileBox box = {};
    if (depth > 0.0f) {
        e = make_ellipse(means2d[i], conic_opacity[i]);
        box = tile_box(e, camera);
    }
    for_each_tile(work, first, num_tiles_of(box) <= LARGE_BOX, e, box, camera, depth, emit);
}
