// Blends the splats of each tile front to back (3D Gaussian Splatting, Kerbl et al. 2023, sec. 6).
//
//     image = sum_i T_i alpha_i c_i + T background        T_i = (1 - alpha_1) ... (1 - alpha_(i-1)), alpha_i = opacity_i exp(power_i)
//
// With LIGHT_LEFT, image = c_i of the first splat with T_(i+1) < LIGHT_LEFT %, or 0 without such a splat.
//
// One block owns a 16x16 tile; blend.cuh shows how warps and lanes share it. For the backward pass, each pixel's colour and
// transmittance are saved every SEGMENT pairs, and the segments that contributed to the tile are listed in `segments`, by their hits.
// Launched by splat_cli/render/blend.py. The same in plain NumPy: tests/reference/blend.py.
#ifdef FEW_TILES                                    // too few to occupy a GPU with two pixels per lane: render/blend.py
#define PIXELS 1
#if __CUDA_ARCH__ >= 1000
#define MIN_BLOCKS 5                                // on a multiprocessor: at most 48 registers
#else
#define MIN_BLOCKS 6                                // at most 40 registers
#endif
#else
#define PIXELS 2
#define MIN_BLOCKS 9                                // at most 56 registers
#endif
#ifdef LIGHT_LEFT                                   // needs more registers; no kernel of training
#undef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif
#include "raster/blend.cuh"

extern "C" __global__ void __launch_bounds__(32 * WARPS, MIN_BLOCKS) blend(
    const Camera* __restrict__ cameras,             // [num_views]
    IterState* __restrict__ state,                  // [1] segments_in_bins is set
    const unsigned* __restrict__ tile_order,        // [num_tiles] longest lists first
    const unsigned* __restrict__ tile_begins,       // [num_tiles + 1]
    const unsigned* __restrict__ splat_from_pair,   // [pair_capacity] sorted by tile, then by depth
    const float2* __restrict__ means2d,             // [capacity] px
    const float4* __restrict__ conic_opacity,       // [capacity] conic in px^-2, opacity
    const float4* __restrict__ colors,              // [capacity] rgb
    float* __restrict__ image,                      // [3, height, width]
    float* __restrict__ final_T,                    // [height, width] transmittance that is left for the background
    float* __restrict__ states,                     // [max_segments, 4, 256] T and rgb at the start of each segment; may be null
    uint2* __restrict__ segments,                   // [SEGMENT_BINS, max_segments] (tile, segment), see blend.cuh; may be null
    unsigned max_segments)
{
    __shared__ Ring rings[WARPS];
    __shared__ int tile_segments;                   // that any warp has entered
    __shared__ unsigned segment_hits[COUNTED_SEGMENTS];
    const Camera& camera = cameras[state->view];
    if (state->overflowed || blockIdx.x >= (unsigned)(camera.tiles_x * camera.tiles_y)) return;
    const unsigned tile = tile_order[blockIdx.x];
    const int warp = threadIdx.y;
    const unsigned begin = tile_begins[tile], end = tile_begins[tile + 1];
    Ring& ring = rings[warp];
    const PairList list = make_list(splat_from_pair, means2d, conic_opacity, colors, camera, tile);

    const Pixels pixels = pixels_of_warp(camera, tile, warp);
    vfloat T[PIXELS], red[PIXELS], green[PIXELS], blue[PIXELS];
    FOR_PIXELS(k) {
        T[k] = select(pixels.inside[k], vfloat(1.0f), vfloat(T_OUTSIDE));
        red[k] = green[k] = blue[k] = 0.0f;
    }

    BLOCK_FOR(i, COUNTED_SEGMENTS) segment_hits[i] = 0;
    BLOCK_FOR(i, 1) tile_segments = 0;
    __syncthreads();
    int num_segments = 0;
    for (unsigned first = begin; first < end && any_light(T); first += SEGMENT, ++num_segments) {
        const int n = min((unsigned)SEGMENT, end - first);
        if (states && first > begin) {
            float* s = states + state_slot(tile, begin, (first - begin) / SEGMENT);
            FOR_PIXELS(k) {
                float* plane = s + state_offset(warp, k);
                store_row(plane, T[k], true); store_row(plane + TILE_PIXELS, red[k], true);
                store_row(plane + 2 * TILE_PIXELS, green[k], true); store_row(plane + 3 * TILE_PIXELS, blue[k], true);
            }
        }
        const int num_hits = visit_hits(list, ring, camera, first, n, pixels, [&] { return any_light(T); },
            [&](const Hit (&hits)[UNROLL], int, int) {
                FOR_HITS(i) FOR_PIXELS(k) {
                    const Hit& h = hits[i];
                    const vfloat power = power_at(h, pixels.u, pixels.v[k]);
#ifdef SPLAT_CPU
                    if (!some(contributes(power, T[k]))) continue;
#endif
                    const vfloat alpha = if_contributes(power, T[k], vmin(vexp2_bounded(power), ALPHA_MAX));
                    const vfloat weight = alpha * T[k], next_T = T[k] - weight;
#ifdef LIGHT_LEFT
                    const vbool here = (T[k] >= LIGHT_LEFT / 100.0f) & (next_T < LIGHT_LEFT / 100.0f);
                    red[k] = select(here, h.red, red[k]); green[k] = select(here, h.green, green[k]);
                    blue[k] = select(here, h.blue, blue[k]);
#else
                    red[k] += h.red * weight; green[k] += h.green * weight; blue[k] += h.blue * weight;
#endif
                    T[k] = next_T;
                }
            }, [](unsigned, int) {});
        if (leader()) atomicAdd(&segment_hits[min(num_segments, COUNTED_SEGMENTS - 1)], (unsigned)num_hits);
    }

    const int plane = camera.width * camera.height;
    FOR_PIXELS(k) {
        const vint p = (pixels.y + 4 * k) * camera.width + pixels.x;
        store(image, p, red[k] + T[k] * state->background[0], pixels.inside[k]);
        store(image + plane, p, green[k] + T[k] * state->background[1], pixels.inside[k]);
        store(image + 2 * plane, p, blue[k] + T[k] * state->background[2], pixels.inside[k]);
        store(final_T, p, T[k], pixels.inside[k]);
    }
    if (!segments) return;

    if (leader()) atomicMax(&tile_segments, num_segments);
    __syncthreads();
    for (int k = max(num_segments, 1); k < tile_segments; ++k) {    // other warps have light left: these pixels ended
        float* s = states + state_slot(tile, begin, k);
        FOR_PIXELS(j) store_row(s + state_offset(warp, j), T[j], true);
    }
    BLOCK_FOR(k, tile_segments) {
        const unsigned hits = segment_hits[min(k, COUNTED_SEGMENTS - 1)] * 4 / WARPS;
        list_segment(state, segments, max_segments, hits, make_uint2(tile, k));
    }
}
