// Stage 3, two levels: a block owns a tile and fetches its splats. A warp owns 8x4 of the pixels and visits only splats that reach them:
// each lane tests one of 32 splats. (With warps of 4x4 pixels, half of the 32 lanes would have no pixel.)
//
// Stage 4, a work queue: the launch has as many blocks as the device can hold at once. Each block takes the next tile from a counter until
// all are taken, in order or with the longest lists first. Without the queue, a block has one tile, and the device's scheduler starts the
// next block when one has ended.
#include "stages.cuh"

#define WARP_WIDTH 8
#define WARP_HEIGHT 4

// Whether alpha >= 1/255 anywhere in the warp's rectangle of pixel centres from (left, top). If the ellipse's centre is outside the
// rectangle, the quadratic form is smallest on an edge that faces it, a column or a row. The test has some slack; each pixel tests again.
__device__ __forceinline__ bool reaches(const Splat& splat, float left, float top)
{
    const float A = splat.conic_opacity.x, B = splat.conic_opacity.y, C = splat.conic_opacity.z;
    const float x0 = left - splat.mean.x, x1 = x0 + (WARP_WIDTH - 1), y0 = top - splat.mean.y, y1 = y0 + (WARP_HEIGHT - 1);
    const float column = fminf(fmaxf(0.0f, x0), x1), row = fminf(fmaxf(0.0f, y0), y1);      // nearest to the centre
    const float y = fminf(fmaxf(-B * column / C, y0), y1), x = fminf(fmaxf(-B * row / A, x0), x1);
    const float on_column = A * column * column + 2.0f * B * column * y + C * y * y;
    const float on_row = A * x * x + 2.0f * B * x * row + C * row * row;
    return splat.conic_opacity.w * expf(-0.5f * fminf(on_column, on_row)) >= 0.999f * ALPHA_MIN;
}

// Takes the next number of the queue, for the whole block.
__device__ __forceinline__ unsigned take_number(unsigned* queue)
{
    __shared__ unsigned number;
    __syncthreads();                                                // all threads have read the previous number
    if (threadIdx.x == 0) number = atomicAdd(queue, 1u);
    __syncthreads();
    return number;
}

// Five blocks per multiprocessor: 48 registers per thread. Without this bound the compiler keeps values in memory (sm_90).
extern "C" __global__ void __launch_bounds__(TILE_PIXELS, 5) stage3_two_levels(
    unsigned* __restrict__ queue,                   // [1] must be 0 before the launch; null: block i owns tile i
    const unsigned* __restrict__ tile_order,        // [num_tiles] tile for each number; null: in order
    const Camera* __restrict__ cameras, const IterState* __restrict__ state, const unsigned* __restrict__ tile_begins,
    const unsigned* __restrict__ splat_from_pair, const float2* __restrict__ means2d, const float4* __restrict__ conic_opacity,
    const float4* __restrict__ colors, const float* __restrict__ final_T, const int* __restrict__ last_pair,
    const float* __restrict__ d_image, float* __restrict__ d_splats)                // see stage 0
{
    __shared__ Splat splats[TILE_PIXELS];                           // farthest first
    const Camera& camera = cameras[state->view];
    const unsigned num_tiles = camera.tiles_x * camera.tiles_y;
    const unsigned thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    const int left = warp % 2 * WARP_WIDTH, top = warp / 2 * WARP_HEIGHT;           // the warp's pixels within the tile
    for (unsigned number = queue ? take_number(queue) : blockIdx.x; number < num_tiles; number = queue ? take_number(queue) : num_tiles) {
        const unsigned tile = tile_order ? tile_order[number] : number, begin = tile_begins[tile];
        Pixel pixel = load_pixel(camera, state->background, tile, left + lane % WARP_WIDTH, top + lane / WARP_WIDTH, begin,
                                 final_T, last_pair, d_image);
        const float warp_x = tile % camera.tiles_x * TILE + left + 0.5f, warp_y = tile / camera.tiles_x * TILE + top + 0.5f;
        unsigned warp_last = pixel.last;
        for (int bit = 16; bit > 0; bit /= 2) warp_last = max(warp_last, __shfl_xor_sync(ALL_LANES, warp_last, bit));
        for (unsigned stop = tile_begins[tile + 1], num; stop > begin; stop -= num) {
            num = fetch_splats(splats, begin, stop, splat_from_pair, means2d, conic_opacity, colors);
            for (unsigned group = 0; group < num; group += 32) {
                const unsigned mine = group + lane;
                const bool wanted = mine < num && stop - 1 - mine < warp_last && reaches(splats[mine], warp_x, warp_y);
                for (unsigned hits = __ballot_sync(ALL_LANES, wanted); hits; hits &= hits - 1) {
                    const unsigned j = group + __ffs(hits) - 1;
                    float gradients[NUM_GRADIENTS] = {};
                    const bool on = stop - 1 - j < pixel.last && splat_gradients(splats[j], pixel, gradients);
                    if (__any_sync(ALL_LANES, on)) add_over_warp(d_splats + (size_t)splats[j].id * SPLAT_SUMS, gradients);
                }
            }
        }
    }
}
