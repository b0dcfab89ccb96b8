// Merge sort of up to CHUNK keys by one block. Each thread sorts a few keys in registers. Then neighbouring sorted runs are merged, and
// runs double in length level by level. Each thread writes as many keys of the merged run as it has registers for; a binary search tells
// it how many of the keys before them come from the first run ("merge path", Green, McColl and Bader 2012).
#pragma once

typedef unsigned long long Key;     // depth bits, then splat; positive floats sort like their bits

#define THREADS 256                 // per block
#define MOST_EACH 16                // maximum number of keys per thread
#define CHUNK (MOST_EACH * THREADS) // maximum number of keys in shared memory
#define INFINITE_KEY ~0ull

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
