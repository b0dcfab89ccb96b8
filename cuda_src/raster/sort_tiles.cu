// Finds the range of each tile in the list of pairs (scan_tiles), and sorts each tile's list by depth, ties by splat (sort_tiles). A
// global sort would move all pairs through memory several times; a tile's list fits in shared memory and is sorted there (merge_sort.cuh;
// radix_sort.cuh on the CPU). scan_tiles has one block. In sort_tiles one block owns one tile; with RADIX, for the CPU, one thread does.
//
// Longer lists: bitonic sorting network (Batcher 1968) on sorted chunks. Stage `run` merges neighbouring sorted runs of run / 2 keys in
// log2(run) steps of independent compare-exchanges. The first step compares mirror images within the run, the others compare keys that
// are a stride apart:
//     run = 8:   mirrored 0-7 1-6 2-5 3-4    stride 2: 0-2 1-3 4-6 5-7    stride 1: 0-1 2-3 4-5 6-7
// Each compare-exchange puts the smaller key first. So the network sorts a list of any length n as if infinities followed it, and
// comparisons past the end are skipped.
#include "common.cuh"
#include "raster/merge_sort.cuh"
#ifdef RADIX
#include "raster/radix_sort.cuh"
#endif

// Sorts n <= CHUNK keys into out, which may be the same array as keys.
template <class T>
__device__ __forceinline__ void sort_chunk(Key* shared /* [SPREAD_CHUNK] */, Key* keys /* [n] */, unsigned n, T* out /* [n] */)
{
#ifdef RADIX
    sort_by_depth(keys, shared, n);
    for (unsigned i = 0; i < n; ++i) out[i] = (T)keys[i];
#else
    if (n <= 4 * THREADS) merge_sort<4>(shared, keys, n, out);
    else if (n <= 8 * THREADS) merge_sort<8>(shared, keys, n, out);
    else merge_sort<MOST_EACH>(shared, keys, n, out);
#endif
}

__device__ __forceinline__ void compare_exchange(Key* keys /* [n] */, unsigned i, unsigned j, unsigned n)
{
    if (j >= n) return;
    const Key a = keys[i], b = keys[j];
    if (a > b) { keys[i] = b; keys[j] = a; }
}

// The steps of a stage compare mirror images, then keys a stride apart. half: half of n, rounded up to a power of two.
__device__ __forceinline__ void mirrored_step(Key* keys /* [n] */, unsigned n, unsigned half, unsigned run)
{
    __syncthreads();
    for (unsigned c = threadIdx.x; c < half; c += blockDim.x) {
        const unsigned offset = c & (run / 2 - 1), begin = 2 * (c - offset);
        compare_exchange(keys, begin + offset, begin + run - 1 - offset, n);
    }
}

__device__ __forceinline__ void strided_step(Key* keys /* [n] */, unsigned n, unsigned half, unsigned stride)
{
    __syncthreads();
    for (unsigned c = threadIdx.x; c < half; c += blockDim.x) {
        const unsigned offset = c & (stride - 1), i = 2 * (c - offset) + offset;
        compare_exchange(keys, i, i + stride, n);
    }
}

__device__ __forceinline__ void copy(Key* to /* [n] */, const Key* from /* [n] */, unsigned n)
{
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) to[i] = from[i];
}

// Sorts a list longer than a chunk in place. Steps of a stage that reach across chunks run in global memory; the later steps run in
// shared memory, chunk by chunk.
__device__ __forceinline__ void sort_long(Key* shared /* [SPREAD_CHUNK] */, Key* keys /* [n] */, unsigned n)
{
    unsigned half = CHUNK;
    while (2 * half < n) half *= 2;
    for (unsigned first = 0; first < n; first += CHUNK) {
        sort_chunk(shared, keys + first, min((unsigned)CHUNK, n - first), keys + first);
        __syncthreads();
    }
    for (unsigned run = 2 * CHUNK; run / 2 < n; run *= 2) {
        mirrored_step(keys, n, half, run);
        for (unsigned stride = run / 4; stride >= CHUNK; stride /= 2) strided_step(keys, n, half, stride);
        __syncthreads();
        for (unsigned first = 0; first < n; first += CHUNK) {
            const unsigned size = min((unsigned)CHUNK, n - first);
            copy(shared, keys + first, size);
            for (unsigned stride = CHUNK / 2; stride > 0; stride /= 2) strided_step(shared, size, CHUNK / 2, stride);
            __syncthreads();
            copy(keys + first, shared, size);
            __syncthreads();
        }
    }
}

#define NUM_LENGTHS 128

// Class of lists of about the same length, four classes per power of two. Long lists go first, so that no block starts late on one.
__device__ __forceinline__ int length_class(unsigned n)
{
    const int e = 31 - __clz((int)n | 1);
    return e < 2 ? (int)n : 4 * e + (int)(n >> (e - 2) & 3u);
}

extern "C" __global__ void scan_tiles(
    const Camera* __restrict__ cameras,         // [num_views]
    IterState* __restrict__ state,              // [1] sets num_pairs, needed_pairs; overflowed if they do not fit
    const unsigned* __restrict__ tile_counts,   // [num_tiles, COUNT_STRIDE]
    unsigned pair_capacity,
    unsigned* __restrict__ tile_begins,         // [num_tiles + 1] tile t owns pairs tile_begins[t] .. tile_begins[t + 1] - 1
    unsigned* __restrict__ tile_order)          // [num_tiles] longest lists first, up to their class
{
    __shared__ unsigned long long sums[256];    // 64-bit: a 32-bit sum could wrap
    __shared__ unsigned lengths[NUM_LENGTHS], places[NUM_LENGTHS];     // tiles per class; next free place of each class in the order
    if (state->overflowed) return;
    const Camera& camera = cameras[state->view];
    const unsigned num_tiles = camera.tiles_x * camera.tiles_y, share = (num_tiles + blockDim.x - 1) / blockDim.x;
    const unsigned begin = min(threadIdx.x * share, num_tiles), end = min(begin + share, num_tiles);
    for (unsigned k = threadIdx.x; k < NUM_LENGTHS; k += blockDim.x) lengths[k] = 0;
    __syncthreads();
    unsigned long long sum = 0;
    for (unsigned t = begin; t < end; ++t) {
        const unsigned n = tile_counts[t * COUNT_STRIDE];
        tile_begins[t] = n;
        sum += n;
        atomicAdd(&lengths[length_class(n)], 1u);
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    // Each thread adds up all sums before its own: one barrier instead of one per level of a tree, and the loads are independent.
    for (unsigned k = threadIdx.x; k < NUM_LENGTHS; k += blockDim.x) {
        unsigned longer = 0;
        for (unsigned l = k + 1; l < NUM_LENGTHS; ++l) longer += lengths[l];
        places[k] = longer;
    }
    unsigned long long before = 0, total = 0;
    for (unsigned t = 0; t < blockDim.x; ++t) {
        before += t < threadIdx.x ? sums[t] : 0;
        total += sums[t];
    }
    __syncthreads();
    for (unsigned t = begin; t < end; ++t) {
        const unsigned n = tile_begins[t];
        tile_begins[t] = (unsigned)before;
        before += n;
        tile_order[atomicAdd(&places[length_class(n)], 1u)] = t;
    }
    if (threadIdx.x == 0) {
        const bool fits = total <= pair_capacity;
        tile_begins[num_tiles] = (unsigned)total;
        state->num_pairs = fits ? (unsigned)total : 0;
        state->needed_pairs = (unsigned)min(total, 0xffffffffull);
        if (!fits) state->overflowed = 1;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 4) sort_tiles(
    const Camera* __restrict__ cameras,         // [num_views]
    const IterState* __restrict__ state,        // [1]
    const unsigned* __restrict__ tile_order,    // [num_tiles]
    const unsigned* __restrict__ tile_begins,   // [num_tiles + 1]
    Key* __restrict__ keys,                     // [pair_capacity] undefined afterwards
    unsigned* __restrict__ splat_from_pair)     // [pair_capacity] splats by tile, then by depth
{
    __shared__ Key shared[SPREAD_CHUNK];
    const Camera& camera = cameras[state->view];
    if (state->overflowed || blockIdx.x >= (unsigned)(camera.tiles_x * camera.tiles_y)) return;
    const unsigned tile = tile_order[blockIdx.x], begin = tile_begins[tile], n = tile_begins[tile + 1] - begin;
    if (n <= CHUNK) {
        sort_chunk(shared, keys + begin, n, splat_from_pair + begin);
        return;
    }
    sort_long(shared, keys + begin, n);
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) splat_from_pair[begin + i] = (unsigned)keys[begin + i];
}
