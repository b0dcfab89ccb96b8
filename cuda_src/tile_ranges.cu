// Where each tile's pairs begin in the sorted list. One thread owns one pair and fills the tiles between its predecessor's
// and its own, so that empty tiles need no clearing pass.
#include "common.cuh"

extern "C" __global__ void tile_ranges(
    const Camera* __restrict__ cameras,         // [num_views]
    const Step* __restrict__ state,             // [1]
    const unsigned* __restrict__ tile_keys,     // [pair_capacity] ascending
    unsigned* __restrict__ tile_begins)         // [num_tiles + 1] tile t owns pairs tile_begins[t] .. tile_begins[t + 1]
{
    const unsigned n = state->num_pairs, i = blockIdx.x * blockDim.x + threadIdx.x;
    if (state->halted || i > n) return;
    const Camera& camera = cameras[state->view];
    const unsigned num_tiles = camera.tiles_x * camera.tiles_y;
    const unsigned begin = i == 0 ? 0 : tile_keys[i - 1] + 1, end = i == n ? num_tiles : tile_keys[i];
    for (unsigned t = begin; t <= end; ++t) tile_begins[t] = i;
}
