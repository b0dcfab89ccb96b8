// For the stages of the blend's backward pass: the pair behind which each pixel has ended, or the end of its tile's list. One thread owns
// one pixel.
#include "common.cuh"

extern "C" __global__ void __launch_bounds__(TILE_PIXELS) last_pair(
    const Camera* __restrict__ cameras,             // [num_views]
    const IterState* __restrict__ state,            // [1]
    const unsigned* __restrict__ tile_begins,       // [num_tiles + 1]
    const unsigned* __restrict__ splat_from_pair,   // [pair_capacity]
    const float2* __restrict__ means2d,             // [capacity] px
    const float4* __restrict__ conic_opacity,       // [capacity] conic in px^-2, opacity
    int* __restrict__ last)                         // [height, width] 1 + index of a pair
{
    const Camera& camera = cameras[state->view];
    const unsigned tile = blockIdx.x;
    if (tile >= (unsigned)(camera.tiles_x * camera.tiles_y)) return;
    const int x = tile % camera.tiles_x * TILE + threadIdx.x % TILE, y = tile / camera.tiles_x * TILE + threadIdx.x / TILE;
    if (x >= camera.width || y >= camera.height) return;
    unsigned pair = tile_begins[tile];
    const unsigned end = tile_begins[tile + 1];
    for (float T = 1.0f; pair < end && T >= TRANSMITTANCE_MIN; ++pair) {
        const unsigned id = splat_from_pair[pair];
        const float dx = x + 0.5f - means2d[id].x, dy = y + 0.5f - means2d[id].y;
        const float4 q = conic_opacity[id];
        const float alpha = q.w * expf(-0.5f * (q.x * dx * dx + q.z * dy * dy) - q.y * dx * dy);
        if (alpha >= ALPHA_MIN) T *= 1.0f - fminf(alpha, ALPHA_MAX);
    }
    last[y * camera.width + x] = pair;
}
