// How much each splat contributes to a view, and to the view's error: what density control decides by.
// Same traversal as blend: a block owns a tile, a warp 8x4 pixels. The error of a pixel is the mean absolute difference of its
// channels; a splat is given its share by blending weight, so that scores of all splats sum to the picture's error.
#include "blend.cuh"

extern "C" __global__ void __launch_bounds__(TILE_PIXELS) blend_scores(
    const Camera* __restrict__ cameras,             // [num_views]
    const Step* __restrict__ state,                 // [1]
    const unsigned* __restrict__ tile_begins,       // [num_tiles + 1]
    const unsigned* __restrict__ splat_from_pair,   // [pair_capacity]
    const float2* __restrict__ means2d,             // [capacity] px
    const float4* __restrict__ conic_opacity,       // [capacity] px^-2, 1
    const float4* __restrict__ colors,              // [capacity] rgb
    const float* __restrict__ image,                // [3, height, width] as blended
    const int* __restrict__ last_pair,              // [height, width]
    float* __restrict__ scores)                     // [capacity, 2] += sum of weights (px), sum of weight * error (px)
{
    __shared__ Staged batch;
    const Camera& camera = cameras[state->view];
    const unsigned tile = blockIdx.x;
    if (state->halted || tile >= (unsigned)(camera.tiles_x * camera.tiles_y)) return;
    const int column = tile % camera.tiles_x, row = tile / camera.tiles_x, warp = threadIdx.y;
    const unsigned begin = tile_begins[tile], end = tile_begins[tile + 1];

    const Pixels pixels = pixels_of_warp(camera, column, row, warp);
    const vfloat px = to_float(pixels.x) + 0.5f, py = to_float(pixels.y) + 0.5f;
    const float left = column * TILE + (warp & 1) * 8 + 0.5f, top = row * TILE + (warp >> 1) * 4 + 0.5f;
    const vint p = pixels.y * camera.width + pixels.x;
    const int plane = camera.width * camera.height;
    const unsigned char* photo = (const unsigned char*)camera.photo;
    vfloat error = 0.0f;
    for (int c = 0; c < 3; ++c)
        error += vabs(load(image + c * plane, p, pixels.inside) - to_float(load(photo, 3 * p + c, pixels.inside)) * (1.0f / 255.0f));
    error *= 1.0f / 3.0f;
    const vint last = load(last_pair, p, pixels.inside);
    const int warp_last = warp_max(last);
    vfloat T = 1.0f;

    for (unsigned first = begin; first < end; first += BATCH) {
        if (!__syncthreads_or((int)first < warp_last)) break;
        const int n = min((unsigned)BATCH, end - first);
        stage(batch, n, splat_from_pair + first, means2d, conic_opacity, colors);
        __syncthreads();
        for (int group = 0; group < min(n, warp_last - (int)first); group += 32) {
            for (unsigned hits = hits_of_warp(batch, group, n, left, top); hits; hits &= hits - 1) {
                const int j = group + __ffs(hits) - 1;
                const float4 shape = batch.shape[j], rest = batch.rest[j];
                const vfloat dx = px - shape.x, dy = py - shape.y;
                const vfloat power = dx * (shape.z * dx + shape.w * dy) + rest.x * dy * dy;
                const vbool on = (last > (int)first + j) & (power >= rest.z);
                if (!any(on)) continue;
                const vfloat alpha = select(on, vmin(rest.y * vexp2(power), ALPHA_MAX), vfloat(0.0f));
                const vfloat weight = alpha * T;
                T *= 1.0f - alpha;
                vfloat sums[2] = {weight, weight * error};
                warp_add(scores + (size_t)splat_from_pair[first + j] * 2, sums);
            }
        }
    }
}
