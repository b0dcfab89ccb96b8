// Stage 2: like stage 1, but a warp sums the gradients of its 32 pixels before one lane adds them: nine atomics per splat and warp
// instead of nine per splat and pixel. A warp without a contribution adds nothing.
#include "stages.cuh"

extern "C" __global__ void __launch_bounds__(TILE_PIXELS) stage2_reduced_atomics(   // parameters: see stage 0
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
            float gradients[NUM_GRADIENTS] = {};
            const bool on = stop - 1 - j < pixel.last && splat_gradients(splats[j], pixel, gradients);
            if (__any_sync(ALL_LANES, on)) add_over_warp(d_splats + (size_t)splats[j].id * SPLAT_SUMS, gradients);
        }
    }
}
