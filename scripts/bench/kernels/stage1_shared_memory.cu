// Stage 1: like stage 0, but each of the 256 threads of a tile loads one of 256 splats into shared memory, and all read
// them from there. Global memory is read once per tile instead of once per warp.
#include "stages.cuh"

extern "C" __global__ void __launch_bounds__(TILE_PIXELS) stage1_shared_memory(     // parameters: see stage 0
    const Camera* __restrict__ cameras, const IterState* __restrict__ state, const unsigned* __restrict__ tile_begins,
    const unsigned* __restrict__ splat_from_pair, const float2* __restrict__ means2d, const float4* __restrict__ conic_opacity,
    const float4* __restrict__ colors, const float* __restrict__ final_T, const int* __restrict__ last_pair,
    const float* __restrict__ d_image, float* __restrict__ d_splats)
{
    __shared__ Splat splats[TILE_PIXELS];                           // farthest first
    const Camera& camera = cameras[state->view];
    const unsigned tile = blockIdx.x, thread = threadIdx.x;
    if (tile >= (unsigned)(camera.tiles_x * camera.tiles_y)) return;
    const unsigned begin = tile_begins[tile];
    Pixel pixel = load_pixel(camera, state->background, tile, thread % TILE, thread / TILE, begin, final_T, last_pair, d_image);
    for (unsigned stop = tile_begins[tile + 1], num; stop > begin; stop -= num) {
        num = fetch_splats(splats, begin, stop, splat_from_pair, means2d, conic_opacity, colors);
        for (unsigned j = 0; j < num; ++j) {
            float gradients[NUM_GRADIENTS];
            if (stop - 1 - j >= pixel.last || !splat_gradients(splats[j], pixel, gradients)) continue;
            for (int k = 0; k < NUM_GRADIENTS; ++k) atomicAdd(d_splats + (size_t)splats[j].id * SPLAT_SUMS + k, gradients[k]);
        }
    }
}
