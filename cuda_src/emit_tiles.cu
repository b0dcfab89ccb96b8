// From the splats in depth order to (tile, splat) pairs: count, scan, emit.
// sum_tiles and scan_tiles: one thread owns 16 splats, a block of 64 threads owns 1024. scan_sums: one block owns all sums.
// emit_tiles: one thread owns one splat and writes its pairs; a splat with many tiles is written by its whole warp.
#include "ellipse.cuh"

#define SCAN_THREADS 64
#define SCAN_ITEMS 16
#define SCAN_BLOCK (SCAN_THREADS * SCAN_ITEMS)
#define SHARED_BY_WARP 64           // tiles from which on a warp shares a splat

// Exclusive prefix of `value` over the block. Every thread adds up its predecessors: two barriers instead of twelve.
__device__ __forceinline__ unsigned block_prefix(unsigned value, unsigned* shared, unsigned num_threads, unsigned* total)
{
    shared[threadIdx.x] = value;
    __syncthreads();
    unsigned before = 0, all = 0;
    for (unsigned t = 0; t < num_threads; ++t) {
        before += t < threadIdx.x ? shared[t] : 0;
        all += shared[t];
    }
    *total = all;
    __syncthreads();
    return before;
}

__device__ __forceinline__ unsigned tiles_of(const unsigned* order, const unsigned* num_tiles, unsigned i, unsigned n)
{
    return i < n ? num_tiles[order[i]] : 0;
}

extern "C" __global__ void sum_tiles(
    const Step* __restrict__ state,             // [1]
    const unsigned* __restrict__ order,         // [capacity] splats by depth, num_visible of them
    const unsigned* __restrict__ num_tiles,     // [capacity]
    unsigned* __restrict__ sums)                // [ceil(capacity / 1024)]
{
    __shared__ unsigned shared[SCAN_THREADS];
    const unsigned n = state->num_visible, first = blockIdx.x * SCAN_BLOCK + threadIdx.x;
    if (state->halted || blockIdx.x * SCAN_BLOCK >= n) return;
    unsigned sum = 0, total;
    for (int k = 0; k < SCAN_ITEMS; ++k) sum += tiles_of(order, num_tiles, first + k * SCAN_THREADS, n);
    block_prefix(sum, shared, SCAN_THREADS, &total);
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

extern "C" __global__ void scan_sums(
    Step* __restrict__ state,                   // [1] num_pairs is written, and halted where they do not fit
    unsigned* __restrict__ sums,                // [ceil(capacity / 1024)] in: sums, out: their exclusive prefix
    unsigned pair_capacity)
{
    __shared__ unsigned shared[256];
    if (state->halted) return;
    const unsigned num_blocks = (state->num_visible + SCAN_BLOCK - 1) / SCAN_BLOCK;
    const unsigned share = (num_blocks + blockDim.x - 1) / blockDim.x;
    const unsigned begin = min(threadIdx.x * share, num_blocks), end = min(begin + share, num_blocks);
    unsigned sum = 0, total;
    for (unsigned i = begin; i < end; ++i) sum += sums[i];
    unsigned running = block_prefix(sum, shared, blockDim.x, &total);
    for (unsigned i = begin; i < end; ++i) { const unsigned s = sums[i]; sums[i] = running; running += s; }
    if (threadIdx.x == 0) {
        const bool fits = total <= pair_capacity;
        state->num_pairs = fits ? total : 0;
        state->needed_pairs = total;
        if (!fits) state->halted = 1;
    }
}

extern "C" __global__ void scan_tiles(
    const Step* __restrict__ state,             // [1]
    const unsigned* __restrict__ order,         // [capacity]
    const unsigned* __restrict__ num_tiles,     // [capacity]
    const unsigned* __restrict__ sums,          // [ceil(capacity / 1024)] exclusive prefix
    unsigned* __restrict__ offsets)             // [capacity] first pair of the i-th splat in depth order
{
    __shared__ unsigned shared[SCAN_THREADS];
    const unsigned n = state->num_visible, first = blockIdx.x * SCAN_BLOCK + threadIdx.x * SCAN_ITEMS;
    if (state->halted || blockIdx.x * SCAN_BLOCK >= n) return;
    unsigned sum = 0, total, count[SCAN_ITEMS];
#pragma unroll
    for (int k = 0; k < SCAN_ITEMS; ++k) sum += count[k] = tiles_of(order, num_tiles, first + k, n);
    unsigned running = sums[blockIdx.x] + block_prefix(sum, shared, SCAN_THREADS, &total);
#pragma unroll
    for (int k = 0; k < SCAN_ITEMS; ++k) {
        if (first + k < n) offsets[first + k] = running;
        running += count[k];
    }
}

extern "C" __global__ void emit_tiles(
    const Camera* __restrict__ cameras,         // [num_views]
    const Step* __restrict__ state,             // [1]
    const unsigned* __restrict__ order,         // [capacity]
    const unsigned* __restrict__ num_tiles,     // [capacity]
    const unsigned* __restrict__ offsets,       // [capacity]
    const float2* __restrict__ means2d,         // [capacity] px
    const float4* __restrict__ conic_opacity,   // [capacity]
    unsigned* __restrict__ tile_keys,           // [pair_capacity]
    unsigned* __restrict__ splat_from_pair)     // [pair_capacity]
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x, n = state->num_visible;
    if (state->halted || blockIdx.x * blockDim.x >= n) return;
    const Camera& camera = cameras[state->view];
    const unsigned splat = i < n ? order[i] : 0, count = i < n ? num_tiles[splat] : 0;

    if (count > 0 && count < SHARED_BY_WARP) {
        const Ellipse e = make_ellipse(means2d[splat], conic_opacity[splat]);
        const Span rows = tile_rows(e, camera);
        unsigned pair = offsets[i];
        for (int row = rows.begin; row < rows.end; ++row) {
            const Span s = tile_span(e, camera, row);
            for (int column = s.begin; column < s.end; ++column, ++pair) {
                tile_keys[pair] = row * camera.tiles_x + column;
                splat_from_pair[pair] = splat;
            }
        }
    }
    const int lane = threadIdx.x & 31;
    for (unsigned big = __ballot_sync(0xffffffffu, count >= SHARED_BY_WARP); big; big &= big - 1) {
        const unsigned other = i - lane + __ffs(big) - 1, id = order[other];
        const Ellipse e = make_ellipse(means2d[id], conic_opacity[id]);
        const Span rows = tile_rows(e, camera);
        unsigned pair = offsets[other];
        for (int row = rows.begin; row < rows.end; ++row) {
            const Span s = tile_span(e, camera, row);
            for (int column = s.begin + lane; column < s.end; column += 32) {
                tile_keys[pair + column - s.begin] = row * camera.tiles_x + column;
                splat_from_pair[pair + column - s.begin] = id;
            }
            pair += max(s.end - s.begin, 0);
        }
    }
}
