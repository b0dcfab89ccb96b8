// Gradients of the blend.
//
// Per pixel. With alpha_i = opacity_i exp(power_i) and T_i = (1 - alpha_1) ... (1 - alpha_(i-1)), a pixel is
// sum_i T_i alpha_i c_i + T background. Its gradients are
//     dL/dc_i     = alpha_i T_i d                                    d = dL/d pixel
//     dL/dalpha_i = T_i (c_i . d - R_i)                              R_i = d . (everything behind splat i, with background) / T_(i+1)
//     dL/dpower_i = g_i = alpha_i dL/dalpha_i                        0 if alpha_i was clipped
// The colour behind a splat is the final colour minus the colour so far. To divide once for a few splats: first front to back, alpha_i,
// T_i and what is behind the last of them, which yields its R_i; then back to front, R_(i-1) = R_i + alpha_i (c_i . d - R_i).
//
// Per splat. The sums over pixels are moments of g_i: g_i times 1, dx, dy, dx^2, dx dy, dy^2, with (dx, dy) = pixel - mean2d. All
// gradients of the ellipse are linear in these moments (geometry_backward.cuh), and moments cost half as much as the gradients.
//
// Work. A block takes segments of tiles: at most 256 splats, and all 256 pixels, so that many blocks share a long list. A warp owns some
// of the pixels. It walks the segment front to back from the saved state, then the next segment of its block, without waiting for other
// warps. It sums the gradients of its pixels on tensor cores (matrix_sums.cuh) or in a butterfly that leaves one value per lane
// (warp_add), and adds them to memory as one row of atomics.
// Launched by splat_cli/render/blend.py. The same in plain NumPy: tests/reference/blend.py.
#define OFFSETS 1
#define PIXELS 2                                    // halves the sums over a warp: docs/optimizations/kernels.md
#ifdef MATRIX_SUMS                                  // on tensor cores if the GPU has them and only the nine sums are needed
#if __CUDA_ARCH__ >= 800 && !defined(ABSGRAD) && !defined(FIXED_SUMS)
#define TENSOR_CORES 1
#endif
#endif
#if TENSOR_CORES
#define MIN_BLOCKS 6                                // on a multiprocessor: at most 80 registers
#else
#define UNROLL 1                                    // the butterfly of sums needs registers
#define MIN_BLOCKS 1
#endif
#include "raster/blend.cuh"
#include "raster/fixed.cuh"
#if TENSOR_CORES
#include "raster/matrix_sums.cuh"
#endif

#ifdef ABSGRAD
#define NUM_SUMS 11                                 // also the sums of |d mean2d| (AbsGS, Ye et al. 2024)
#else
#define NUM_SUMS 9
#endif

struct WarpMemory {                                 // shared memory of a warp; one address instead of two saves registers
    Ring ring;
#if TENSOR_CORES
    MatrixBuffer buffer;
#endif
};

extern "C" __global__ void __launch_bounds__(32 * WARPS, MIN_BLOCKS) blend_backward(
    const Camera* __restrict__ cameras,             // [num_views]
    const IterState* __restrict__ state,            // [1]
    const uint2* __restrict__ segments,             // [SEGMENT_BINS, max_segments] (tile, segment)
    unsigned max_segments,
    const unsigned* __restrict__ tile_begins,       // [num_tiles + 1]
    const unsigned* __restrict__ splat_from_pair,   // [pair_capacity]
    const float2* __restrict__ means2d,             // [capacity] px
    const float4* __restrict__ conic_opacity,       // [capacity] conic in px^-2, opacity
    const float4* __restrict__ colors,              // [capacity] rgb
    const float* __restrict__ image,                // [3, height, width]
    const float* __restrict__ states,               // [max_segments, 4, 256] T and rgb at the start of each segment
    const float* __restrict__ d_image,              // [3, height, width]
    float* __restrict__ d_splats)                   // [capacity, SPLAT_SUMS] accumulated; with FIXED_SUMS see fixed.cuh
{
    __shared__ WarpMemory memory[WARPS];
    if (state->overflowed) return;
    uint2 work;
    for (unsigned block = blockIdx.x; segment_of(*state, segments, max_segments, block, work); block += gridDim.x) {
        const Camera& camera = cameras[state->view];
        const unsigned tile = work.x;
        const int segment = work.y;
        const int warp = threadIdx.y;
        Ring& ring = memory[warp].ring;
        const unsigned begin = tile_begins[tile], first = begin + segment * SEGMENT;
        const int n = min((unsigned)SEGMENT, tile_begins[tile + 1] - first);
        const PairList list = make_list(splat_from_pair, means2d, conic_opacity, colors, camera, tile);
#ifdef SPLAT_CPU                                    // otherwise each sum would wait for its row of d_splats
        BLOCK_FOR(i, n) {
            const float* row = d_splats + (size_t)splat_from_pair[first + i] * SPLAT_SUMS;
            __builtin_prefetch(row, 1); __builtin_prefetch(row + NUM_SUMS - 1, 1);
        }
#endif

        const Pixels pixels = pixels_of_warp(camera, tile, warp);
        const int plane = camera.width * camera.height;
        const float* s = states + state_slot(tile, begin, segment);
        vfloat T[PIXELS], d_red[PIXELS], d_green[PIXELS], d_blue[PIXELS];
        vfloat behind[PIXELS];                          // d_image . (colour from here to the back, with background)
        FOR_PIXELS(k) {
            const vint p = (pixels.y + 4 * k) * camera.width + pixels.x;
            const vbool in = pixels.inside[k];
            d_red[k] = load(d_image, p, in); d_green[k] = load(d_image + plane, p, in); d_blue[k] = load(d_image + 2 * plane, p, in);
            behind[k] = load(image, p, in) * d_red[k] + load(image + plane, p, in) * d_green[k] + load(image + 2 * plane, p, in) * d_blue[k];
            T[k] = select(in, vfloat(1.0f), vfloat(T_OUTSIDE));
            if (segment == 0) continue;
            const float* saved = s + state_offset(warp, k);
            T[k] = load_row(saved, true);
            const vbool light = T[k] >= TRANSMITTANCE_MIN;          // otherwise blend may not have saved the colours
            behind[k] = behind[k] - load_row(saved + TILE_PIXELS, light) * d_red[k] - load_row(saved + 2 * TILE_PIXELS, light) * d_green[k]
                      - load_row(saved + 3 * TILE_PIXELS, light) * d_blue[k];
        }
#if TENSOR_CORES
        MatrixBuffer& buffer = memory[warp].buffer;
        int lane = lane_id();
        asm volatile("" : "+r"(lane));              // otherwise features are computed before the loop, and spilled
        const Features features = make_features(buffer, lane, d_red, d_green, d_blue);
        float4* const terms = buffer.terms + lane_id();
        static_assert(MATRIX_SPLATS == 2 * UNROLL, "visit_hits calls add_sums after 2 UNROLL visits");
        const auto add_sums = [&](unsigned slot, int count) {       // of `count` hits, whose terms are in the buffer
            const int n = lane_id() >> 2, q = lane_id() & 3;
            const unsigned splat = ring.splats[slot + n];
            const float2 offset = offset_of(ring, slot + n);
            const MatrixSums sums = sum_terms(buffer, features, lane_id(), -3.5f - offset.x, -3.5f - offset.y);
            if (count < MATRIX_SPLATS && n >= count) return;
            float* const pair = (float*)((float2*)d_splats + (splat * (SPLAT_SUMS / 2) + q));    // two columns per lane
            add_pair(pair, sums.pair);
            if (q == 0) atomicAdd(pair + 8, sums.blue);
        };
#endif
        visit_hits(list, ring, camera, first, n, pixels, [&] { return any_light(T); },
            [&](const Hit (&hits)[UNROLL], unsigned place, unsigned slot) {
#if !TENSOR_CORES
                vbool some_on = false;
                FOR_PIXELS(k) some_on = some_on | contributes(power_at(hits[0], pixels.u, pixels.v[k]), T[k]);
                if (!any(some_on)) return;
#endif
                vfloat alpha[UNROLL][PIXELS], weight[UNROLL][PIXELS], radiance[UNROLL][PIXELS];
                FOR_HITS(i) FOR_PIXELS(k) {
                    const Hit& h = hits[i];
                    const vfloat power = power_at(h, pixels.u, pixels.v[k]);
                    alpha[i][k] = if_contributes(power, T[k], vmin(vexp2_bounded(power), ALPHA_MAX));
                    weight[i][k] = alpha[i][k] * T[k];
                    radiance[i][k] = h.red * d_red[k] + h.green * d_green[k] + h.blue * d_blue[k];
                    behind[k] -= weight[i][k] * radiance[i][k];
                    T[k] -= weight[i][k];
                }
                vfloat backdrop[PIXELS];                // behind the last of these hits, then behind the one before it, ...
                FOR_PIXELS(k) {
                    backdrop[k] = behind[k] * vrcp(T[k]);
                }
#pragma unroll
                for (int i = UNROLL - 1; i >= 0; --i) {
                    vfloat g[PIXELS];
                    FOR_PIXELS(k) {
                        const vfloat difference = radiance[i][k] - backdrop[k];
                        g[k] = select(alpha[i][k] < ALPHA_MAX, weight[i][k] * difference, vfloat(0.0f));
                        backdrop[k] += alpha[i][k] * difference;
                    }
#if TENSOR_CORES
                    terms[(place + i) * TERMS_STRIDE] = matrix_terms(g, weight[i]);
#else
                    const unsigned splat = ring.splats[slot + i];
                    const float2 offset = offset_of(ring, slot + i);
                    const vfloat dx = pixels.u + offset.x;
                    vfloat dy[PIXELS];
                    FOR_PIXELS(k) dy[k] = pixels.v[k] + offset.y;
                    // Sums over a lane's pixels, which share dx. The first pixel assigns, since a compiler may not drop an addition of 0.
                    vfloat sum_g = g[0], sum_gy = g[0] * dy[0], sum_gyy = sum_gy * dy[0];
                    vfloat red = weight[i][0] * d_red[0], green = weight[i][0] * d_green[0], blue = weight[i][0] * d_blue[0];
                    for (int k = 1; k < PIXELS; ++k) {
                        const vfloat gy = g[k] * dy[k];
                        sum_g += g[k]; sum_gy += gy; sum_gyy += gy * dy[k];
                        red += weight[i][k] * d_red[k]; green += weight[i][k] * d_green[k]; blue += weight[i][k] * d_blue[k];
                    }
                    const vfloat sum_gx = sum_g * dx;
#ifdef ABSGRAD
                    vfloat abs_x = 0.0f, abs_y = 0.0f;
                    FOR_PIXELS(k) {
                        const vfloat gx = g[k] * dx, gy = g[k] * dy[k];
                        abs_x += vabs(2.0f * hits[i].a * gx + hits[i].b * gy) * (1.0f / LOG2E);
                        abs_y += vabs(hits[i].b * gx + 2.0f * hits[i].c * gy) * (1.0f / LOG2E);
                    }
                    vfloat sums[] = {sum_g, sum_gx, sum_gy, sum_gx * dx, sum_gy * dx, sum_gyy, red, green, blue, abs_x, abs_y};
#else
                    vfloat sums[] = {sum_g, sum_gx, sum_gy, sum_gx * dx, sum_gy * dx, sum_gyy, red, green, blue};
#endif
#ifdef FIXED_SUMS
                    const float4 conic = conic_opacity[splat];
#pragma unroll
                    for (int n = 0; n < NUM_SUMS; ++n) {
                        const float units = warp_sum(sums[n]) / fixed_unit(n, conic, camera.num_pixels);
                        unsigned long long* row = (unsigned long long*)d_splats + (size_t)splat * SPLAT_SUMS;
                        if (leader() && !add_fixed(row + n, units * FIXED_ONE)) atomicAdd(row + FIXED_POISON, 1ull);
                    }
#else
                    warp_add(d_splats + (size_t)splat * SPLAT_SUMS, sums);
#endif
#endif
                }
            },
            [&](unsigned slot, int count) {
#if TENSOR_CORES
                add_sums(slot, count);
#endif
            });
    }
}
