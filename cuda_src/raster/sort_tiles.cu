// Sort each tile's list of splats by depth, ties by splat. A global sort of all pairs would move them through memory several
// times; a tile's list fits in shared memory and is sorted there. One block owns a tile.
#include "common.cuh"

typedef unsigned long long Key;     // depth bits, then splat: positive floats order as their bits do

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
    const IterState* __restrict__ state,        // [1]
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
