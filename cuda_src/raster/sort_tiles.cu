// Finds the range of each tile in the list of pairs (scan_tiles), and sorts each tile's list by depth, ties by splat (sort_tiles). A
// global sort would move all pairs through memory several times; a tile's list fits in shared memory and is sorted there (merge_sort;
// on the CPU, sort_by_depth). scan_tiles has one block. In sort_tiles one block owns one tile; with RADIX, for the CPU, one thread does.
//
// Longer lists: bitonic sorting network (Batcher 1968) on sorted chunks. Stage `run` merges neighbouring sorted runs of run / 2 keys in
// log2(run) steps of independent compare-exchanges. The first step compares mirror images within the run, the others compare keys that
// are a stride apart:
//     run = 8:   mirrored 0-7 1-6 2-5 3-4    stride 2: 0-2 1-3 4-6 5-7    stride 1: 0-1 2-3 4-5 6-7
// Each compare-exchange puts the smaller key first. So the network sorts a list of any length n as if infinities followed it, and
// comparisons past the end are skipped.
// Launched by splat_cli/render/tiles.py. The same in plain NumPy: tests/reference/tiles.py.
#include "common.cuh"

typedef unsigned long long Key;     // depth bits, then splat; positive floats sort like their bits

#define THREADS 256                 // per block
#define MOST_EACH 16                // maximum number of keys per thread
#define CHUNK (MOST_EACH * THREADS) // maximum number of keys in shared memory
#define INFINITE_KEY ~0ull

// Merge sort of up to CHUNK keys by one block. Each thread sorts a few keys in registers. Then neighbouring sorted runs are merged, and
// runs double in length level by level. Each thread writes as many keys of the merged run as it has registers for; a binary search tells
// it how many of the keys before them come from the first run ("merge path", Green, McColl and Bader 2012).
//
// Position of key i in shared memory. A gap after every 16 keys lets threads with 4, 8 or 16 keys each use different banks.
__device__ __forceinline__ unsigned spread(unsigned i) { return i + i / 16; }
#define SPREAD_CHUNK (CHUNK + CHUNK / 16)

template <int EACH>
__device__ __forceinline__ void sort_in_registers(Key (&own)[EACH])     // odd-even transposition
{
#pragma unroll
    for (int round = 0; round < EACH; ++round) {
#pragma unroll
        for (int k = round & 1; k + 1 < EACH; k += 2) {
            const Key a = own[k], b = own[k + 1];
            own[k] = a < b ? a : b;
            own[k + 1] = a < b ? b : a;
        }
    }
}

// How many of the first `diagonal` keys of the merged runs [begin, middle) and [middle, end) come from the first run.
__device__ __forceinline__ unsigned merge_path(
    const Key* shared /* [SPREAD_CHUNK] */, unsigned begin, unsigned middle, unsigned end, unsigned diagonal)
{
    unsigned low = diagonal > end - middle ? diagonal - (end - middle) : 0, high = min(diagonal, middle - begin);
    while (low < high) {
        const unsigned k = (low + high) / 2;
        if (shared[spread(begin + k)] < shared[spread(middle + diagonal - 1 - k)]) low = k + 1;
        else high = k;
    }
    return low;
}

// Keys diagonal .. diagonal + EACH - 1 of the merged runs.
template <int EACH>
__device__ __forceinline__ void merge(
    Key (&own)[EACH], const Key* shared /* [SPREAD_CHUNK] */, unsigned begin, unsigned middle, unsigned end, unsigned diagonal)
{
    const unsigned path = merge_path(shared, begin, middle, end, diagonal);
    unsigned i = begin + path, j = middle + diagonal - path;
    Key a = i < middle ? shared[spread(i)] : INFINITE_KEY, b = j < end ? shared[spread(j)] : INFINITE_KEY;
#pragma unroll
    for (int k = 0; k < EACH; ++k) {
        const bool first = a < b;
        own[k] = first ? a : b;
        const unsigned next = first ? ++i : ++j;
        const Key key = next < (first ? middle : end) ? shared[spread(next)] : INFINITE_KEY;
        a = first ? key : a;
        b = first ? b : key;
    }
}

__device__ __forceinline__ void sync(bool within_warps)
{
    if (within_warps) __syncwarp();
    else __syncthreads();
}

// Sorts n <= EACH * THREADS keys into out, which may be the same array as keys. All threads of the block call it. Other uses of
// `shared` need a barrier before and after.
template <int EACH, class T>
__device__ __forceinline__ void merge_sort(Key* shared /* [SPREAD_CHUNK] */, const Key* keys /* [n] */, unsigned n, T* out /* [n] */)
{
    const unsigned num_threads = (n + EACH - 1) / EACH, size = EACH * num_threads, first = EACH * threadIdx.x;
    const bool active = first < size;
    Key own[EACH];
#pragma unroll
    for (int k = 0; k < EACH; ++k) {                    // in any order, so that loads are coalesced
        const unsigned i = k * num_threads + threadIdx.x;
        own[k] = active && i < n ? keys[i] : INFINITE_KEY;
    }
    sort_in_registers(own);
    for (unsigned run = EACH; run < size; run *= 2) {
        sync(run <= 32 * EACH);                         // all threads have read the previous runs
#pragma unroll
        for (int k = 0; k < EACH; ++k)
            if (active) shared[spread(first + k)] = own[k];
        sync(2 * run <= 32 * EACH);
        const unsigned begin = first & ~(2 * run - 1);
        if (active) merge(own, shared, begin, min(begin + run, size), min(begin + 2 * run, size), first - begin);
    }
#pragma unroll
    for (int k = 0; k < EACH; ++k)
        if (first + k < n) out[first + k] = (T)own[k];
}

#ifdef RADIX
// Radix sort of one tile's keys by one thread, from the least significant byte up (Knuth, TAOCP vol. 3, sec. 5.2.5).

#define SHORT_LIST 32               // number of keys below which insertion sort is faster

__device__ inline void insertion_sort(Key* keys /* [n] */, unsigned n)
{
    for (unsigned i = 1; i < n; ++i) {
        const Key key = keys[i];
        unsigned j = i;
        for (; j > 0 && keys[j - 1] > key; --j) keys[j] = keys[j - 1];
        keys[j] = key;
    }
}

// Stable sort by four bytes; the lowest one begins at bit `shift`. Skips bytes that are equal in all keys.
__device__ inline void sort_by_word(Key* keys /* [n] */, Key* scratch /* [n] */, unsigned n, int shift)
{
    unsigned counts[4][256] = {};
    for (unsigned i = 0; i < n; ++i)
        for (int byte = 0; byte < 4; ++byte) ++counts[byte][keys[i] >> (shift + 8 * byte) & 255u];
    Key *from = keys, *to = scratch;
    for (int byte = 0; byte < 4; ++byte) {
        const int at = shift + 8 * byte;
        if (counts[byte][from[0] >> at & 255u] == n) continue;
        unsigned begin = 0;
        for (int digit = 0; digit < 256; ++digit) {
            const unsigned count = counts[byte][digit];
            counts[byte][digit] = begin;
            begin += count;
        }
        for (unsigned i = 0; i < n; ++i) to[counts[byte][from[i] >> at & 255u]++] = from[i];
        Key* const swapped = from;
        from = to;
        to = swapped;
    }
    if (from != keys)
        for (unsigned i = 0; i < n; ++i) keys[i] = scratch[i];
}

// Sorts keys (depth in the high word, splat in the low word): by depth, then equal depths by splat.
__device__ inline void sort_by_depth(Key* keys /* [n] */, Key* scratch /* [n] */, unsigned n)
{
    if (n <= SHORT_LIST) {
        insertion_sort(keys, n);
        return;
    }
    sort_by_word(keys, scratch, n, 32);
    for (unsigned begin = 0, end; begin < n; begin = end) {
        for (end = begin + 1; end < n && keys[end] >> 32 == keys[begin] >> 32;) ++end;
        if (end - begin <= SHORT_LIST) insertion_sort(keys + begin, end - begin);
        else sort_by_word(keys + begin, scratch, end - begin, 0);
    }
}
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
