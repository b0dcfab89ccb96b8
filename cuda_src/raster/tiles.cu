// From projected splats to the sorted list of each tile's splats, in five kernels:
//     project              counts the tiles of small splats
//     count_large_tiles    adds the tiles of large splats; one block per large splat
//     scan_tiles           turns counts into ranges (sort_tiles.cu)
//     emit_tiles           fills the ranges in any order; the first num_large_blocks blocks take one large splat at a time, in the other
//                          blocks one lane owns one small splat
//     sort_tiles           sorts each range (sort_tiles.cu)
// Launched by splat_cli/render/tiles.py. The same in plain NumPy: tests/reference/tiles.py.
#include "raster/tile_walk.cuh"

typedef unsigned long long Key;     // depth bits, then splat; positive floats sort like their bits

// Calls visit(TileBatch) for the tiles of all large splats, as block `block` of `num_blocks` that share them.
template <class F>
__device__ __forceinline__ void for_each_large_tile(
    TileWork& work, int block, int num_blocks, const Camera& camera, unsigned num_large,
    const unsigned* __restrict__ large_splats,  // [num_large]
    const float* __restrict__ depths,           // [capacity]
    const float2* __restrict__ means2d,         // [capacity] px
    const float4* __restrict__ conic_opacity,   // [capacity] conic in px^-2, opacity
    F visit)
{
    for (unsigned k = block; k < num_large; k += num_blocks) {
        const unsigned i = large_splats[k];
        const float2 mean = means2d[i];
        const float4 conic = conic_opacity[i];
        const vfloat4 conic_of_all = {conic.x, conic.y, conic.z, conic.w};
        for_each_tile_of_large(work, i, make_ellipse(mean.x, mean.y, conic_of_all), camera, depths[i], visit);
    }
}

extern "C" __global__ void count_large_tiles(
    const Camera* __restrict__ cameras,         // [num_views]
    const IterState* __restrict__ state,        // [1]
    unsigned capacity,
    const unsigned* __restrict__ large_splats,  // [capacity] the first num_large are used
    const float* __restrict__ depths,           // [capacity] 0 if invisible
    const float2* __restrict__ means2d,         // [capacity] px
    const float4* __restrict__ conic_opacity,   // [capacity]
    unsigned* __restrict__ tile_counts)         // [num_tiles, COUNT_STRIDE] accumulated: large splats that touch each tile
{
    __shared__ TileWork work;
    if (state->overflowed) return;
    const unsigned num_large = min(state->num_large, capacity);
    for_each_large_tile(work, blockIdx.x, gridDim.x, cameras[state->view], num_large, large_splats, depths, means2d, conic_opacity,
        [&](const TileBatch& batch) { count_tiles(tile_counts, batch); });
}

extern "C" __global__ void emit_tiles(
    const Camera* __restrict__ cameras,         // [num_views]
    const IterState* __restrict__ state,        // [1]
    unsigned capacity,
    int num_large_blocks,
    const unsigned* __restrict__ large_splats,  // [capacity] the first num_large are used
    const float* __restrict__ depths,           // [capacity] 0 if invisible
    const float2* __restrict__ means2d,         // [capacity] px
    const float4* __restrict__ conic_opacity,   // [capacity]
    const unsigned* __restrict__ tile_begins,   // [num_tiles + 1]
    unsigned* __restrict__ tile_counts,         // [num_tiles, COUNT_STRIDE] counted down to 0, which the next view needs
    Key* __restrict__ keys)                     // [pair_capacity]
{
    __shared__ TileWork work;
    if (state->overflowed) return;
    const Camera& camera = cameras[state->view];
    const auto emit = [&](const TileBatch& batch) {
        vint left[IN_FLIGHT];                   // free places in the tile's range, including the one taken
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; ++k) left[k] = atomic_add(tile_counts, batch.tile[k] * COUNT_STRIDE, -1, batch.on[k]);
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; ++k) {
            const vbool counted = left[k] > 0;  // true as long as both walks find the same tiles
            const vint place = load(tile_begins, batch.tile[k], batch.on[k]) + left[k] - 1;
            store_pair(keys, place, batch.splat, float_bits(batch.depth), batch.on[k] & counted);
            const vbool missed = batch.on[k] & !counted;
            if (some(missed)) atomic_add(tile_counts, batch.tile[k] * COUNT_STRIDE, 1, missed);
        }
    };
    if ((int)blockIdx.x < num_large_blocks) {
        const unsigned num_large = min(state->num_large, capacity);
        for_each_large_tile(work, blockIdx.x, num_large_blocks, camera, num_large, large_splats, depths, means2d, conic_opacity, emit);
        return;
    }
    const int first = (blockIdx.x - num_large_blocks) * 32 * blockDim.y, n = state->num_splats;
    if (first >= n) return;
    const int i = own(first + first_of_warp());
    const vfloat depth = load_own(depths + i, first + first_of_warp() + lane_id() < n);
    const vbool visible = depth > 0.0f;
    Ellipse e = {};
    TileBox box = {};
    if (some(visible)) {
        vfloat x, y;
        load2_own(means2d + i, x, y, visible);
        e = make_ellipse(x, y, load4_own(conic_opacity + i, visible));
        box = tile_box(e, camera);
    }
    for_each_tile(work, first, visible & (num_tiles_of(box) <= LARGE_BOX), e, box, camera, depth, emit);
}
