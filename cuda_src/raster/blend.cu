// Blends the splats of each tile front to back (3D Gaussian Splatting, Kerbl et al. 2023, sec. 6).
//
//     image = sum_i T_i alpha_i c_i + T background        T_i = (1 - alpha_1) ... (1 - alpha_(i-1)), alpha_i = opacity_i exp(power_i)
//
// With MEDIAN, image = c_i of the first splat behind which less than half of the light is left: T_(i+1) < 1/2; 0 if there is none.
//
// One block owns a 16x16 tile; blend.cuh shows how warps and lanes share it. For the backward pass, each pixel's colour and
// transmittance are saved every SEGMENT pairs, and the segments that contributed to the tile are listed in `segments`.
#define PIXELS 1                                    // more pixels cost registers and leave lanes idle: docs/optimizations/kernels.md
#include "raster/blend.cuh"

// Ends the pixels in m: no further splat is added. On the GPU the pixel's y becomes NaN, so that every power fails its threshold
// and the loop needs no extra test. On the CPU it is a mask, because with NaN each splat would wait for the one before it.
__device__ __forceinline__ void finish(vbool m, vfloat& y, vbool& live)
{
#ifdef SPLAT_CPU
    live = live & !m;
#else
    y = select(m, vfloat(__int_as_float(0x7fc00000)), y);
#endif
}

__device__ __forceinline__ bool any_pixel(const vfloat (&y)[PIXELS], const vbool (&live)[PIXELS])
{
    vbool some_live = live[0] & (y[0] == y[0]);
    FOR_PIXELS(k) some_live = some_live | (live[k] & (y[k] == y[k]));
    return any(some_live);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS) blend(
    const Camera* __restrict__ cameras,             // [num_views]
    IterState* __restrict__ state,          // [1] num_segments is set
    const unsigned* __restrict__ tile_order,        // [num_tiles] longest lists first
    const unsigned* __restrict__ tile_begins,       // [num_tiles + 1]
    const unsigned* __restrict__ splat_from_pair,   // [pair_capacity] sorted by tile, then by depth
    const float2* __restrict__ means2d,             // [capacity] px
    const float4* __restrict__ conic_opacity,       // [capacity] conic in px^-2, opacity
    const float4* __restrict__ colors,              // [capacity] rgb
    float* __restrict__ image,                      // [3, height, width]
    float* __restrict__ final_T,                    // [height, width] transmittance that is left for the background
    int* __restrict__ last_pair,                    // [height, width] 1 + index of the last pair that contributed
    float* __restrict__ states,                     // [slots, 4, 256] T and rgb at the start of each segment; may be null
    uint2* __restrict__ segments)                   // [slots] (tile, segment) of each block of the backward pass; may be null
{
    __shared__ Staged batch;
    __shared__ int tile_last;
    const Camera& camera = cameras[state->view];
    if (state->overflowed || blockIdx.x >= (unsigned)(camera.tiles_x * camera.tiles_y)) return;
    const unsigned tile = tile_order[blockIdx.x];
    const int warp = threadIdx.y;
    const unsigned begin = tile_begins[tile], end = tile_begins[tile + 1];

    const Pixels pixels = pixels_of_warp(camera, tile, warp);
    vfloat T[PIXELS], red[PIXELS], green[PIXELS], blue[PIXELS];
    vint last[PIXELS];
    vfloat y[PIXELS];                               // y of the pixel centres, px
    vbool live[PIXELS];
    FOR_PIXELS(k) {
        T[k] = 1.0f; red[k] = green[k] = blue[k] = 0.0f;
        last[k] = (int)begin;
        y[k] = pixels.py + 4.0f * k; live[k] = true;
        finish(!pixels.inside[k], y[k], live[k]);
    }

    for (unsigned first = begin; first < end; first += BATCH) {
        if (!__syncthreads_or(any_pixel(y, live))) break;
        const int n = min((unsigned)BATCH, end - first);
        stage(batch, n, camera, tile, splat_from_pair + first, means2d, conic_opacity, colors);
        if (states && first > begin) {
            float* s = states + state_slot(tile, begin, (first - begin) / SEGMENT);
            FOR_PIXELS(k) {
                float* plane = s + state_offset(warp, k);
                store_row(plane, T[k], true); store_row(plane + TILE_PIXELS, red[k], true);
                store_row(plane + 2 * TILE_PIXELS, green[k], true); store_row(plane + 3 * TILE_PIXELS, blue[k], true);
            }
        }
        __syncthreads();
        for (int group = 0; group < n && any_pixel(y, live); group += 32) {
            for (unsigned hits = hits_of_warp(batch, group, n, pixels); hits; hits &= hits - 1) {
                const int j = group + __ffs(hits) - 1;
                const float4 shape = batch.shape[j], rest = batch.rest[j], color = batch.color[j];
                const vfloat dx = pixels.px - shape.x, along_x = shape.z * dx * dx, across = shape.w * dx;
                FOR_PIXELS(k) {
                    const vfloat dy = y[k] - shape.y;
                    const vfloat power = along_x + dy * (across + rest.x * dy);
                    vbool on = live[k] & (power >= rest.z);
                    if (!some(on)) continue;
                    const vfloat alpha = vmin(rest.y * vexp2_bounded(power), ALPHA_MAX);
                    const vfloat next_T = T[k] * (1.0f - alpha);
                    const vbool stop = on & (next_T < TRANSMITTANCE_MIN);
                    finish(stop, y[k], live[k]);
                    on = on & !stop;
                    const vfloat weight = select(on, alpha * T[k], vfloat(0.0f));
#ifdef MEDIAN
                    const vbool median = on & (T[k] >= 0.5f) & (next_T < 0.5f);
                    red[k] = select(median, color.x, red[k]); green[k] = select(median, color.y, green[k]);
                    blue[k] = select(median, color.z, blue[k]);
#else
                    red[k] += color.x * weight; green[k] += color.y * weight; blue[k] += color.z * weight;
#endif
                    T[k] = select(on, next_T, T[k]);
                    last[k] = select(on, vint((int)first + j + 1), last[k]);
                }
            }
        }
    }

    const int plane = camera.width * camera.height;
    vint most = last[0];
    FOR_PIXELS(k) {
        const vint p = (pixels.y + 4 * k) * camera.width + pixels.x;
        store(image, p, red[k] + T[k] * state->background[0], pixels.inside[k]);
        store(image + plane, p, green[k] + T[k] * state->background[1], pixels.inside[k]);
        store(image + 2 * plane, p, blue[k] + T[k] * state->background[2], pixels.inside[k]);
        store(final_T, p, T[k], pixels.inside[k]);
        store(last_pair, p, last[k], pixels.inside[k]);
        most = vmax(most, last[k]);
    }
    if (!segments) return;

    BLOCK_FOR(i, 1) tile_last = begin;
    __syncthreads();
    const int warp_last = warp_max(most);
    if (leader()) atomicMax(&tile_last, warp_last);
    __syncthreads();
    BLOCK_FOR(i, 1) {
        const unsigned used = (tile_last - begin + SEGMENT - 1) / SEGMENT, slot = atomicAdd(&state->num_segments, used);
        for (unsigned k = 0; k < used; ++k) { uint2 work; work.x = tile; work.y = k; segments[slot + k] = work; }
    }
}
