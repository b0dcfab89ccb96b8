// Blend the splats of each tile front to back (3D Gaussian Splatting, Kerbl et al. 2023, sec. 6).
// A block owns a 16x16 tile, a warp 8x4 of its pixels, a lane one pixel. For the backward pass a pixel's colour and
// transmittance are saved every SEGMENT pairs, and the tile's segments that contributed are listed as work.
#include "blend.cuh"

extern "C" __global__ void __launch_bounds__(TILE_PIXELS) blend(
    const Camera* __restrict__ cameras,             // [num_views]
    Step* __restrict__ state,                       // [1] num_segments is written
    const unsigned* __restrict__ tile_begins,       // [num_tiles + 1]
    const unsigned* __restrict__ splat_from_pair,   // [pair_capacity] by tile, then by depth
    const float2* __restrict__ means2d,             // [capacity] px
    const float4* __restrict__ conic_opacity,       // [capacity] px^-2, 1
    const float4* __restrict__ colors,              // [capacity] rgb
    float* __restrict__ image,                      // [3, height, width]
    float* __restrict__ final_T,                    // [height, width] transmittance left for the background
    int* __restrict__ last_pair,                    // [height, width] pair after the last one that contributed
    float* __restrict__ states,                     // [slots, 4, 256] T, rgb where a segment begins; may be null
    uint2* __restrict__ segments)                   // [slots] tile, segment: work of the backward pass; may be null
{
    __shared__ Staged batch;
    __shared__ int tile_last;
    const Camera& camera = cameras[state->view];
    const unsigned tile = blockIdx.x;
    if (state->halted || tile >= (unsigned)(camera.tiles_x * camera.tiles_y)) return;
    const int column = tile % camera.tiles_x, row = tile / camera.tiles_x, warp = threadIdx.y;
    const unsigned begin = tile_begins[tile], end = tile_begins[tile + 1];

    const Pixels pixels = pixels_of_warp(camera, column, row, warp);
    const vfloat px = to_float(pixels.x) + 0.5f, py = to_float(pixels.y) + 0.5f;
    const float left = column * TILE + (warp & 1) * 8 + 0.5f, top = row * TILE + (warp >> 1) * 4 + 0.5f;
    vfloat T = 1.0f, red = 0.0f, green = 0.0f, blue = 0.0f;
    vint last = (int)begin;
    vbool live = pixels.inside;

    for (unsigned first = begin; first < end; first += BATCH) {
        if (!__syncthreads_or(any(live))) break;
        const int n = min((unsigned)BATCH, end - first);
        stage(batch, n, splat_from_pair + first, means2d, conic_opacity, colors);
        if (states && first > begin) {
            float* s = states + state_slot(tile, begin, (first - begin) / SEGMENT) + warp * 32;
            store_row(s, T, true); store_row(s + TILE_PIXELS, red, true);
            store_row(s + 2 * TILE_PIXELS, green, true); store_row(s + 3 * TILE_PIXELS, blue, true);
        }
        __syncthreads();
        for (int group = 0; group < n && any(live); group += 32) {
            for (unsigned hits = hits_of_warp(batch, group, n, left, top); hits; hits &= hits - 1) {
                const int j = group + __ffs(hits) - 1;
                const float4 shape = batch.shape[j], rest = batch.rest[j];
                const vfloat dx = px - shape.x, dy = py - shape.y;
                const vfloat power = dx * (shape.z * dx + shape.w * dy) + rest.x * dy * dy;
                vbool on = live & (power >= rest.z);
                if (!some(on)) continue;
                const vfloat alpha = vmin(rest.y * vexp2(power), ALPHA_MAX);
                const vfloat next_T = T * (1.0f - alpha);
                const vbool stop = on & (next_T < TRANSMITTANCE_MIN);
                live = live & !stop;
                on = on & !stop;
                const vfloat weight = select(on, alpha * T, vfloat(0.0f));
                const float4 color = batch.color[j];
                red += color.x * weight; green += color.y * weight; blue += color.z * weight;
                T = select(on, next_T, T);
                last = select(on, vint((int)first + j + 1), last);
            }
        }
    }

    const vint p = pixels.y * camera.width + pixels.x;
    const int plane = camera.width * camera.height;
    store(image, p, red + T * state->background[0], pixels.inside);
    store(image + plane, p, green + T * state->background[1], pixels.inside);
    store(image + 2 * plane, p, blue + T * state->background[2], pixels.inside);
    store(final_T, p, T, pixels.inside);
    store(last_pair, p, last, pixels.inside);
    if (!segments) return;

    BLOCK_FOR(i, 1) tile_last = begin;
    __syncthreads();
    const int warp_last = warp_max(last);
    if (leader()) atomicMax(&tile_last, warp_last);
    __syncthreads();
    BLOCK_FOR(i, 1) {
        const unsigned used = (tile_last - begin + SEGMENT - 1) / SEGMENT, slot = atomicAdd(&state->num_segments, used);
        for (unsigned k = 0; k < used; ++k) { uint2 work; work.x = tile; work.y = k; segments[slot + k] = work; }
    }
}
