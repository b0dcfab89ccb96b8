// From projected splats to each tile's list in depth order. project has counted the splats of each tile; scan_tiles turns the
// counts into ranges, emit_tiles fills them in any order, sort_tiles sorts each range by depth, ties by splat. A global sort
// of all pairs would move them through memory several times; a tile's list fits in shared memory and is sorted there.
// scan_tiles: one block owns all tiles. emit_tiles: one thread owns a splat. sort_tiles: one block owns a tile.
#include "raster/ellipse.cuh"

typedef unsigned long long Key;     // depth bits, then splat: positive floats order as their bits do

#define NUM_LENGTHS 128

// Lists of nearly the same length, four classes to a power of two. Long lists go first, so that no block starts late on one.
__device__ __forceinline__ int length_class(unsigned n)
{
    const int e = 31 - __clz((int)n | 1);
    return e < 2 ? (int)n : 4 * e + (int)(n >> (e - 2) & 3u);
}

extern "C" __global__ void scan_tiles(
    const Camera* __restrict__ cameras,         // [num_views]
    IterState* __restrict__ state,                   // [1] num_pairs is written, and overflowed where they do not fit
    const unsigned* __restrict__ tile_counts,   // [num_tiles]
    unsigned pair_capacity,
    unsigned* __restrict__ tile_begins,         // [num_tiles + 1] tile t owns pairs tile_begins[t] .. tile_begins[t + 1]
    unsigned* __restrict__ tile_order)          // [num_tiles] tiles, about the longest lists first
{
    __shared__ unsigned sums[256], places[NUM_LENGTHS];
    if (state->overflowed) return;
    const Camera& camera = cameras[state->view];
    const unsigned num_tiles = camera.tiles_x * camera.tiles_y, share = (num_tiles + blockDim.x - 1) / blockDim.x;
    const unsigned begin = min(threadIdx.x * share, num_tiles), end = min(begin + share, num_tiles);
    for (unsigned k = threadIdx.x; k < NUM_LENGTHS; k += blockDim.x) places[k] = 0;
    __syncthreads();
    unsigned sum = 0;
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
    unsigned before = 0, total = 0;             // every thread adds up its predecessors: one barrier, no tree
    for (unsigned t = 0; t < blockDim.x; ++t) {
        before += t < threadIdx.x ? sums[t] : 0;
        total += sums[t];
    }
    for (unsigned t = begin; t < end; ++t) {
        tile_begins[t] = before;
        before += tile_counts[t];
    }
    __syncthreads();
    for (unsigned t = begin; t < end; ++t) tile_order[atomicAdd(&places[length_class(tile_counts[t])], 1u)] = t;
    if (threadIdx.x == 0) {
        const bool fits = total <= pair_capacity;
        tile_begins[num_tiles] = total;
        state->num_pairs = fits ? total : 0;
        state->needed_pairs = total;
        if (!fits) state->overflowed = 1;
    }
}

extern "C" __global__ void emit_tiles(
    const Camera* __restrict__ cameras,         // [num_views]
    const IterState* __restrict__ state,             // [1]
    const float* __restrict__ depths,           // [capacity] 0 where invisible
    const float2* __restrict__ means2d,         // [capacity] px
    const float4* __restrict__ conic_opacity,   // [capacity]
    const unsigned* __restrict__ tile_begins,   // [num_tiles + 1]
    unsigned* __restrict__ tile_counts,         // [num_tiles] counted down to 0, ready for the next view
    Key* __restrict__ keys)                     // [pair_capacity]
{
    __shared__ TileWork work;
    const int i = blockIdx.x * blockDim.x + threadIdx.x, n = state->num_splats;
    if ((int)(blockIdx.x * blockDim.x) >= n || state->overflowed) return;
    const float depth = i < n ? depths[i] : 0.0f;
    const bool visible = depth > 0.0f;
    Ellipse e = {};
    if (visible) e = make_ellipse(means2d[i], conic_opacity[i]);
    for_each_tile(work, visible, e, cameras[state->view], depth, [&](int splat, float z, unsigned tile) {
        const unsigned pair = tile_begins[tile] + atomicSub(&tile_counts[tile], 1u) - 1;
        keys[pair] = (Key)__float_as_uint(z) << 32 | (unsigned)splat;
    });
}

// Bitonic sorting network (Batcher 1968) in the form whose comparators all point the same way, so that a list of any length n
// is sorted as if infinities followed it. A comparator (i, partner) is skipped where the partner is past the end.
__device__ __forceinline__ void compare_exchange(Key* keys /* [n] */, unsigned i, unsigned partner, unsigned n)
{
    if (partner >= n) return;
    const Key a = keys[i], b = keys[partner];
    if (a > b) { keys[i] = b; keys[partner] = a; }
}

// What one step wrote, the next must see. A warp's comparators of a step lie in one window of `reach` keys; while windows are no
// larger than the 64 keys that 32 comparators cover, a warp reads what it wrote itself, and the block need not wait.
struct Steps {
    Key* keys;
    unsigned n, half;                           // half of n, rounded up to a power of two: comparators of a step
    unsigned reach;                             // of the step before

    __device__ __forceinline__ void wait(unsigned next)
    {
        if (max(reach, next) > 64) __syncthreads();
        else __syncwarp();
        reach = next;
    }

    __device__ __forceinline__ void merge(unsigned stride)          // down to neighbours
    {
        for (; stride > 0; stride /= 2) merge_step(stride);
    }

    __device__ __forceinline__ void merge_step(unsigned stride)
    {
        wait(2 * stride);
        for (unsigned c = threadIdx.x; c < half; c += blockDim.x) {
            const unsigned low = c & (stride - 1), i = 2 * (c - low) + low;
            compare_exchange(keys, i, i + stride, n);
        }
    }

    __device__ __forceinline__ void flip_step(unsigned run)
    {
        wait(run);
        const unsigned middle = run / 2;
        for (unsigned c = threadIdx.x; c < half; c += blockDim.x) {
            const unsigned offset = c & (middle - 1), begin = 2 * (c - offset);
            compare_exchange(keys, begin + offset, begin + run - 1 - offset, n);
        }
    }

    __device__ __forceinline__ void sort()
    {
        for (unsigned run = 2; run / 2 < n; run *= 2) {
            flip_step(run);
            merge(run / 4);
        }
    }
};

#define WHOLE_BLOCK 128                         // the reach of whatever the block did before the first step

__device__ __forceinline__ unsigned half_of(unsigned n)
{
    unsigned half = 1;
    while (2 * half < n) half *= 2;
    return half;
}

#define CHUNK 4096                              // keys that fit in shared memory

// A chunk of a long list: through shared memory, either sorted or only merged.
__device__ __forceinline__ void through_shared(Key* shared /* [CHUNK] */, Key* keys /* [n] */, unsigned n, bool merge_only)
{
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) shared[i] = keys[i];
    Steps steps = {shared, n, merge_only ? CHUNK / 2 : half_of(n), WHOLE_BLOCK};
    if (merge_only) steps.merge(CHUNK / 2);
    else steps.sort();
    __syncthreads();
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) keys[i] = shared[i];
    __syncthreads();
}

// A list longer than a chunk: the same network, with the comparators that reach over chunks in global memory.
__device__ __forceinline__ void sort_long(Key* shared /* [CHUNK] */, Key* keys /* [n] */, unsigned n)
{
    for (unsigned c = 0; c < n; c += CHUNK) through_shared(shared, keys + c, min((unsigned)CHUNK, n - c), false);
    Steps steps = {keys, n, half_of(n), WHOLE_BLOCK};
    for (unsigned run = 2 * CHUNK; run / 2 < n; run *= 2) {
        steps.flip_step(run);
        for (unsigned stride = run / 4; stride >= CHUNK; stride /= 2) steps.merge_step(stride);
        __syncthreads();
        for (unsigned c = 0; c < n; c += CHUNK) through_shared(shared, keys + c, min((unsigned)CHUNK, n - c), true);
    }
}

extern "C" __global__ void __launch_bounds__(256) sort_tiles(
    const Camera* __restrict__ cameras,         // [num_views]
    const IterState* __restrict__ state,             // [1]
    const unsigned* __restrict__ tile_order,    // [num_tiles]
    const unsigned* __restrict__ tile_begins,   // [num_tiles + 1]
    Key* __restrict__ keys,                     // [pair_capacity] undefined afterwards
    unsigned* __restrict__ splat_from_pair)     // [pair_capacity] splats by tile, then by depth
{
    __shared__ Key shared[CHUNK];
    const Camera& camera = cameras[state->view];
    if (state->overflowed || blockIdx.x >= (unsigned)(camera.tiles_x * camera.tiles_y)) return;
    const unsigned tile = tile_order[blockIdx.x], begin = tile_begins[tile], n = tile_begins[tile + 1] - begin;
    const Key* sorted = shared;
    if (n > CHUNK) {
        sort_long(shared, keys + begin, n);
        sorted = keys + begin;
    } else {
        for (unsigned i = threadIdx.x; i < n; i += blockDim.x) shared[i] = keys[begin + i];
        Steps steps = {shared, n, half_of(n), WHOLE_BLOCK};
        steps.sort();
        __syncthreads();
    }
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) splat_from_pair[begin + i] = (unsigned)sorted[i];
}
