// Ranges of the tiles' lists, and their sorting by depth, ties by splat. A global sort of all pairs would move them through memory
// several times; a tile's list fits in shared memory and is sorted there.
// scan_tiles: one block owns all tiles. sort_tiles: one block owns a tile; with RADIX, for the CPU, one thread.
//
// Bitonic sorting network (Batcher 1968). Stage `run` = 2, 4, 8, ... merges neighbouring sorted runs of run / 2 keys in log2(run)
// steps of independent compare-exchanges: the first between mirror images within the run, the others between keys a stride apart.
//     run = 8:   mirrored 0-7 1-6 2-5 3-4    stride 2: 0-2 1-3 4-6 5-7    stride 1: 0-1 2-3 4-5 6-7
// Every compare-exchange puts the smaller key first, so that a list of any length n is sorted as if infinities followed it:
// those that reach past the end are left out.
#include "common.cuh"
#ifdef RADIX
#include "raster/radix_sort.cuh"
#endif

typedef unsigned long long Key;     // depth bits, then splat: positive floats order as their bits do

#define CHUNK 4096                  // keys that fit in shared memory
#define WARP_WINDOW 64              // keys that the 32 compare-exchanges of a warp cover

__device__ __forceinline__ void compare_exchange(Key* keys /* [n] */, unsigned i, unsigned j, unsigned n)
{
    if (j >= n) return;
    const Key a = keys[i], b = keys[j];
    if (a > b) { keys[i] = b; keys[j] = a; }
}

// Compare-exchanges of a step: half of n, rounded up to a power of two.
__device__ __forceinline__ unsigned exchanges_of(unsigned n)
{
    unsigned half = 1;
    while (2 * half < n) half *= 2;
    return half;
}

// The network on one list. All threads of the block call each step.
struct BitonicSort {
    Key* keys;
    unsigned n;
    unsigned num_exchanges;         // of a step
    unsigned window;                // aligned groups of this many keys are what the step before mixed; at first: unknown, so large

    // Makes visible what the step before wrote. While both steps keep within the windows of warps, a warp reads only what it
    // wrote itself, and the block need not wait.
    __device__ __forceinline__ void sync(unsigned next_window)
    {
        if (max(window, next_window) > WARP_WINDOW) __syncthreads();
        else __syncwarp();
        window = next_window;
    }

    __device__ __forceinline__ void mirrored_step(unsigned run)
    {
        sync(run);
        for (unsigned c = threadIdx.x; c < num_exchanges; c += blockDim.x) {
            const unsigned offset = c & (run / 2 - 1), begin = 2 * (c - offset);
            compare_exchange(keys, begin + offset, begin + run - 1 - offset, n);
        }
    }

    __device__ __forceinline__ void strided_step(unsigned stride)
    {
        sync(2 * stride);
        for (unsigned c = threadIdx.x; c < num_exchanges; c += blockDim.x) {
            const unsigned offset = c & (stride - 1), i = 2 * (c - offset) + offset;
            compare_exchange(keys, i, i + stride, n);
        }
    }

    __device__ __forceinline__ void strided_steps(unsigned stride)      // and all smaller strides
    {
        for (; stride > 0; stride /= 2) strided_step(stride);
    }

    __device__ __forceinline__ void sort()
    {
        for (unsigned run = 2; run / 2 < n; run *= 2) {
            mirrored_step(run);
            strided_steps(run / 4);
        }
    }
};

__device__ __forceinline__ void copy(Key* to, const Key* from, unsigned n)
{
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) to[i] = from[i];
}

// A list longer than a chunk: chunks are sorted in shared memory; then, of each stage, steps that reach over chunks work in
// global memory, the further ones in shared memory again, a chunk after the other.
__device__ __forceinline__ void sort_long(Key* shared /* [CHUNK] */, Key* keys /* [n] */, unsigned n)
{
    for (unsigned first = 0; first < n; first += CHUNK) {
        const unsigned size = min((unsigned)CHUNK, n - first);
        copy(shared, keys + first, size);
        BitonicSort chunk = {shared, size, exchanges_of(size), 2 * CHUNK};
        chunk.sort();
        __syncthreads();
        copy(keys + first, shared, size);
        __syncthreads();
    }
    BitonicSort whole = {keys, n, exchanges_of(n), 2 * CHUNK};
    for (unsigned run = 2 * CHUNK; run / 2 < n; run *= 2) {
        whole.mirrored_step(run);
        for (unsigned stride = run / 4; stride >= CHUNK; stride /= 2) whole.strided_step(stride);
        __syncthreads();
        for (unsigned first = 0; first < n; first += CHUNK) {
            const unsigned size = min((unsigned)CHUNK, n - first);
            copy(shared, keys + first, size);
            BitonicSort chunk = {shared, size, CHUNK / 2, 2 * CHUNK};
            chunk.strided_steps(CHUNK / 2);
            __syncthreads();
            copy(keys + first, shared, size);
            __syncthreads();
        }
    }
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

extern "C" __global__ void __launch_bounds__(256) sort_tiles(
    const Camera* __restrict__ cameras,         // [num_views]
    const IterState* __restrict__ state,    // [1]
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
#ifdef RADIX
        sort_by_depth(keys + begin, shared, n);
        sorted = keys + begin;
#else
        copy(shared, keys + begin, n);
        BitonicSort list = {shared, n, exchanges_of(n), 2 * CHUNK};
        list.sort();
        __syncthreads();
#endif
    }
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) splat_from_pair[begin + i] = (unsigned)sorted[i];
}
