// Blends the splats of each tile front to back (3D Gaussian Splatting, Kerbl et al. 2023, sec. 6).
//
//     image = sum_i T_i alpha_i c_i + T background        T_i = (1 - alpha_1) ... (1 - alpha_(i-1)), alpha_i = opacity_i exp(power_i)
//
// With MEDIAN, image = c_i of the first splat behind which less than half of the light is left: T_(i+1) < 1/2; 0 without one.
//
// One block owns a 16x16 tile; blend.cuh shows how warps and lanes share it. For the backward pass, each pixel's colour and
// transmittance are saved every SEGMENT pairs, and the segments that contributed to the tile are listed in `segments`.
#ifdef FEW_TILES                                    // too few to occupy a GPU with two pixels per lane: render/blend.py
#define PIXELS 1
#define MIN_BLOCKS 6                                // on a multiprocessor: at most 40 registers
#else
#define PIXELS 2
#define MIN_BLOCKS 9                                // at most 56 registers
#endif
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

extern "C" __global__ void __launch_bounds__(32 * WARPS, MIN_BLOCKS) blend(
    const Camera* __restrict__ cameras,             // [num_views]
    IterState* __restrict__ state,                  // [1] num_segments is set
    const unsigned* __restrict__ tile_order,        // [num_tiles] longest lists first
    const unsigned* __restrict__ tile_begins,       // [num_tiles + 1]
    const unsigned* __restrict__ splat_from_pair,   // [pair_capacity] sorted by tile, then by depth
    const float2* __restrict__ means2d,             // [capacity] px
    const float4* __restrict__ conic_opacity,       // [capacity] conic in px^-2, opacity
    const float4* __restrict__ colors,              // [capacity] rgb
    float* __restrict__ image,                      // [3, height, width]
    float* __restrict__ final_T,                    // [height, width] transmittance that is left for the background
    int* __restrict__ last_pair,                    // [height, width] pair at which the pixel ended, or the end of its tile's list
    float* __restrict__ states,                     // [slots, 4, 256] T and rgb at the start of each segment; may be null
    uint2* __restrict__ segments)                   // [slots] (tile, segment) of each block of the backward pass; may be null
{
    __shared__ Ring rings[WARPS];
    __shared__ int tile_last;
    const Camera& camera = cameras[state->view];
    if (state->overflowed || blockIdx.x >= (unsigned)(camera.tiles_x * camera.tiles_y)) return;
    const unsigned tile = tile_order[blockIdx.x];
    const int warp = threadIdx.y;
    const unsigned begin = tile_begins[tile], end = tile_begins[tile + 1];
    Ring& ring = rings[warp];
    const PairList list = make_list(splat_from_pair, means2d, conic_opacity, colors, camera, tile);

    Pixels pixels = pixels_of_warp(camera, tile, warp);
    vfloat T[PIXELS], red[PIXELS], green[PIXELS], blue[PIXELS];
    vint last[PIXELS];
    vbool live[PIXELS];
    FOR_PIXELS(k) {
        T[k] = 1.0f; red[k] = green[k] = blue[k] = 0.0f;
        last[k] = select(pixels.inside[k], vint((int)end), vint((int)begin));
        live[k] = true;
        finish(!pixels.inside[k], pixels.v[k], live[k]);
    }

    for (unsigned first = begin; first < end && any_pixel(pixels.v, live); first += SEGMENT) {
        const int n = min((unsigned)SEGMENT, end - first);
        if (states && first > begin) {
            float* s = states + state_slot(tile, begin, (first - begin) / SEGMENT);
            FOR_PIXELS(k) {
                float* plane = s + state_offset(warp, k);
                store_row(plane, T[k], true); store_row(plane + TILE_PIXELS, red[k], true);
                store_row(plane + 2 * TILE_PIXELS, green[k], true); store_row(plane + 3 * TILE_PIXELS, blue[k], true);
            }
        }
        visit_hits(list, ring, camera, first, n, pixels, [&] { return any_pixel(pixels.v, live); }, [](int, unsigned) {},
            [&](const Hit& h, int, int, int slot) {
                FOR_PIXELS(k) {
                    const vfloat power = power_at(h, pixels.u, pixels.v[k]);
                    const vbool on = live[k] & (power >= POWER_MIN);
#ifdef SPLAT_CPU
                    if (!some(on)) continue;
#endif
                    const vfloat alpha = select(on, vmin(vexp2_bounded(power), ALPHA_MAX), vfloat(0.0f));
                    const vfloat weight = alpha * T[k], next_T = T[k] - weight;
                    const vbool stop = next_T < TRANSMITTANCE_MIN;
                    const vfloat visible = select(stop, vfloat(0.0f), weight);
#ifdef MEDIAN
                    const vbool median = (T[k] >= 0.5f) & (next_T < 0.5f);
                    red[k] = select(median, h.red, red[k]); green[k] = select(median, h.green, green[k]);
                    blue[k] = select(median, h.blue, blue[k]);
#else
                    red[k] += h.red * visible; green[k] += h.green * visible; blue[k] += h.blue * visible;
#endif
                    T[k] = select(stop, T[k], next_T);
                    if (some(stop)) {
                        finish(stop, pixels.v[k], live[k]);
                        last[k] = select(stop, vint(pair_of(ring, slot)), last[k]);
                    }
                }
            }, [](int) {});
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
