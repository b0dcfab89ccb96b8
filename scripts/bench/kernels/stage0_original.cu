// Stage 0, the original: one thread owns one pixel and walks its tile's list. It reads each splat from global memory and adds each of the
// nine gradients with an atomic of its own. The lanes of a warp process the same splat at the same time. So their atomics have the same
// address and run one after the other.
#include "stages.cuh"

extern "C" __global__ void __launch_bounds__(TILE_PIXELS) stage0_original(
    const Camera* __restrict__ cameras,             // [num_views]
    const IterState* __restrict__ state,            // [1]
    const unsigned* __restrict__ tile_begins,       // [num_tiles + 1]
    const unsigned* __restrict__ splat_from_pair,   // [pair_capacity]
    const float2* __restrict__ means2d,             // [capacity] px
    const float4* __restrict__ conic_opacity,       // [capacity] conic in px^-2, opacity
    const float4* __restrict__ colors,              // [capacity] rgb
    const float* __restrict__ final_T,              // [height, width]
    const int* __restrict__ last_pair,              // [height, width]
    const float* __restrict__ d_image,              // [3, height, width]
    float* __restrict__ d_splats)                   // [capacity, SPLAT_SUMS] accumulated
{
    const Camera& camera = cameras[state->view];
    const unsigned tile = blockIdx.x;
    if (tile >= (unsigned)(camera.tiles_x * camera.tiles_y)) return;
    const unsigned begin = tile_begins[tile], end = tile_begins[tile + 1];
    Pixel pixel = load_pixel(
        camera, state->background, tile, threadIdx.x % TILE, threadIdx.x / TILE, begin, final_T, last_pair, d_image);
    for (unsigned pair = end; pair-- > begin;) {
        if (pair >= pixel.last) continue;
        const unsigned id = splat_from_pair[pair];
        const Splat splat = {means2d[id], id, conic_opacity[id], colors[id]};
        float gradients[NUM_GRADIENTS];
        if (!splat_gradients(splat, pixel, gradients)) continue;
        for (int k = 0; k < NUM_GRADIENTS; ++k) atomicAdd(d_splats + (size_t)id * SPLAT_SUMS + k, gradients[k]);
    }
}
