// Scores of density control: each splat's contribution to a view, and its share of the view's error.
//
//     scores[i] = (sum over pixels of w_i, sum over pixels of w_i error)        w_i = T_i alpha_i; error: see l1_ssim.cu
//
// Splats are traversed as in blend. One block owns a tile; if blend has saved its states, one block owns a segment of a tile, as in
// blend_backward, because otherwise a few long lists would keep a few blocks busy.
// Launched by splat_cli/render/blend.py. The same in plain NumPy: tests/reference/blend.py.
#define PIXELS 2
#include "raster/blend.cuh"
#include "raster/fixed.cuh"

extern "C" __global__ void __launch_bounds__(32 * WARPS) blend_scores(
    const Camera* __restrict__ cameras,             // [num_views]
    const IterState* __restrict__ state,            // [1]
    const unsigned* __restrict__ tile_order,        // [num_tiles] longest lists first; used without segments
    const uint2* __restrict__ segments,             // [SEGMENT_BINS, max_segments] (tile, segment); null: one block per tile
    unsigned max_segments,
    const float* __restrict__ states,               // [max_segments, 4, 256] T and rgb at the start of each segment
    const unsigned* __restrict__ tile_begins,       // [num_tiles + 1]
    const unsigned* __restrict__ splat_from_pair,   // [pair_capacity]
    const float2* __restrict__ means2d,             // [capacity] px
    const float4* __restrict__ conic_opacity,       // [capacity] conic in px^-2, opacity
    const float4* __restrict__ colors,              // [capacity] rgb
    const float* __restrict__ errors,               // [3, height, width] from l1_ssim
    float* __restrict__ scores)                     // [capacity, 2] accumulated: weights (px), weighted errors (px);
                                                    //   with FIXED_SUMS [capacity, 4]: the bits of two 64-bit integers
{
    __shared__ Ring rings[WARPS];
    const Camera& camera = cameras[state->view];
    if (state->overflowed) return;
    uint2 work = make_uint2(0, 0);
    if (segments && !segment_of(*state, segments, max_segments, blockIdx.x, work)) return;
    if (!segments && blockIdx.x >= (unsigned)(camera.tiles_x * camera.tiles_y)) return;
    const unsigned tile = segments ? work.x : tile_order[blockIdx.x], segment = work.y;
    const unsigned tile_begin = tile_begins[tile], begin = tile_begin + segment * SEGMENT, tile_end = tile_begins[tile + 1];
    const unsigned end = segments ? min(begin + SEGMENT, tile_end) : tile_end;

    const Pixels pixels = pixels_of_warp(camera, tile, threadIdx.y);
    const int plane = camera.width * camera.height;
    vfloat T[PIXELS], error[PIXELS];
    FOR_PIXELS(k) {
        const vint p = (pixels.y + 4 * k) * camera.width + pixels.x;
        const vbool in = pixels.inside[k];
        error[k] = (load(errors, p, in) + load(errors + plane, p, in) + load(errors + 2 * plane, p, in)) * (1.0f / 3.0f);
        T[k] = select(in, vfloat(1.0f), vfloat(T_OUTSIDE));
        if (segment > 0) T[k] = load_row(states + state_slot(tile, tile_begin, segment) + state_offset(threadIdx.y, k), true);
    }

    Ring& ring = rings[threadIdx.y];
    const PairList list = make_list(splat_from_pair, means2d, conic_opacity, colors, camera, tile);
    visit_hits(list, ring, camera, begin, (int)(end - begin), pixels, [&] { return any_light(T); },
        [&](const Hit (&hits)[UNROLL], int, int slot) {
            FOR_HITS(i) {
                const Hit& h = hits[i];
                vfloat sums[2];
                sums[0] = sums[1] = 0.0f;
                FOR_PIXELS(k) {
                    const vfloat power = power_at(h, pixels.u, pixels.v[k]);
                    const vfloat weight = if_contributes(power, T[k], vmin(vexp2_bounded(power), ALPHA_MAX)) * T[k];
                    T[k] -= weight;
                    sums[0] += weight; sums[1] += weight * error[k];
                }
                if (!any(sums[0] > 0.0f)) continue;
                const size_t splat = ring.splats[slot + i];
#ifdef FIXED_SUMS
                for (int i = 0; i < 2; ++i) {
                    const float sum = warp_sum(sums[i]);
                    if (leader()) add_fixed((unsigned long long*)scores + splat * 2 + i, sum * SCORE_ONE);
                }
#else
                warp_add(scores + splat * 2, sums);
#endif
            }
        },
        [](unsigned, int) {});
}
