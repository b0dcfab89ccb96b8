// Shared by blend, blend_backward and blend_scores: pixels of a warp, the walk of a warp along its tile's list of splats, and segments
// of lists.
//
// A lane owns PIXELS pixels of a column, 4 rows apart; a warp owns 8 x (4 PIXELS) pixels of the 16x16 tile. The cost per splat
// (loads, loop, sums over the warp) is shared by these pixels.
//
//     PIXELS = 1             PIXELS = 2             lanes of a warp at PIXELS = 2
//     +-------+-------+      +-------+-------+          0  1  2 ...  7
//     | warp 0| warp 1|      |       |       |          8  9 10 ... 15       first pixels
//     +-------+-------+      | warp 0| warp 1|         16 17 18 ... 23
//     | warp 2| warp 3|      |       |       |         24 25 26 ... 31
//     +-------+-------+      +-------+-------+          0  1  2 ...  7
//     | warp 4| warp 5|      |       |       |          8  9 10 ... 15       second pixels
//     +-------+-------+      | warp 2| warp 3|         16 17 18 ... 23
//     | warp 6| warp 7|      |       |       |         24 25 26 ... 31
//     +-------+-------+      +-------+-------+
//
// Warps are independent: none waits for another one of its tile. A warp walks its list 32 splats at a time. First, each lane tests one
// of them against the warp's rectangle and, if it touches, puts it into a ring in shared memory: a hit. Then all lanes visit the
// hits in order. A visit is straight-line code that reads nine words, so that the latencies of several visits overlap. On the
// CPU the same code runs with vectors of 32 pixels instead of a warp.
#pragma once
#include "common.cuh"
#include "lanes.cuh"
#ifdef LENS
#include "lens/lens.cuh"
#endif

#ifndef PIXELS
#error "a kernel that includes blend.cuh defines PIXELS first: 1, 2 or 4"
#endif
#define WARPS (TILE_PIXELS / 32 / PIXELS)
#define WARP_WIDTH 8
#define WARP_HEIGHT (4 * PIXELS)
#define FOR_PIXELS(k) _Pragma("unroll") for (int k = 0; k < PIXELS; ++k)

#define FOR_HITS(i) _Pragma("unroll") for (int i = 0; i < UNROLL; ++i)
#define POWER_MIN (-7.9943534f)             // log2(ALPHA_MIN): alpha = 2^power

struct Pixels {                             // pixels of one warp; a lane's k-th pixel lies 4 k rows below its first
    vint x, y;                              // the lane's first pixel
    float left, top;                        // centre of the warp's first pixel, px
    vfloat u, v[PIXELS];                    // centres of the lane's pixels, from there, px
    vbool inside[PIXELS];
};

__device__ __forceinline__ Pixels pixels_of_warp(const Camera& camera, unsigned tile, int warp)
{
    const int left = (int)(tile % camera.tiles_x) * TILE + (warp & 1) * WARP_WIDTH;
    const int top = (int)(tile / camera.tiles_x) * TILE + (warp >> 1) * WARP_HEIGHT;
    Pixels p;
    p.x = left + (lane_id() & 7);
    p.y = top + (lane_id() >> 3);
    p.left = left + 0.5f; p.top = top + 0.5f;
    p.u = to_float(p.x - left);
    FOR_PIXELS(k) {
        p.v[k] = to_float(p.y - top) + 4.0f * k;
        p.inside[k] = (p.x < camera.width) & (p.y + 4 * k < camera.height);
    }
    return p;
}

struct PairList {                           // the sorted pairs of all tiles, and the projected splats
    const unsigned* splat_from_pair;        // [pair_capacity]
    const float2* means2d;                  // [capacity] px
    const float4* conic_opacity;            // [capacity] conic in px^-2, opacity
    const float4* colors;                   // [capacity] rgb
    float middle;                           // LENS: x of the tile's middle, px
};

__device__ __forceinline__ PairList make_list(
    const unsigned* splat_from_pair, const float2* means2d, const float4* conic_opacity, const float4* colors,
    const Camera& camera, unsigned tile)
{
    PairList list = {splat_from_pair, means2d, conic_opacity, colors, (tile % camera.tiles_x + 0.5f) * TILE};
    return list;
}

struct Footprint { vint splat; vfloat x, y, a, b, c, peak; };  // power = peak + a dx^2 + b dx dy + c dy^2 at (dx, dy) from the mean

__device__ __forceinline__ Footprint load_footprint(const PairList& list, const Camera& camera, vint splat, vbool m)
{
    Footprint f;
    f.splat = splat;
    load2(list.means2d, splat, f.x, f.y, m);
#ifdef LENS
    f.x = wrapped_near(camera, f.x, list.middle);
#endif
    const vfloat4 q = load4(list.conic_opacity, splat, m);
    f.a = -0.5f * LOG2E * q.x; f.b = -LOG2E * q.y; f.c = -0.5f * LOG2E * q.z; f.peak = vlog2(q.w);
    return f;
}

// Does the splat's power reach POWER_MIN at any point of the warp's rectangle of pixel centres? Exact: seen from a rectangle that
// does not contain the mean, the largest power lies on an edge that faces the mean.
__device__ __forceinline__ vbool touches(const Footprint& f, const Pixels& pixels)
{
    const float left = pixels.left, top = pixels.top, right = left + (WARP_WIDTH - 1), bottom = top + (WARP_HEIGHT - 1);
    const vfloat dx = vmin(vmax(f.x, left), right) - f.x;       // nearest column of the rectangle
    const vfloat dy = vmin(vmax(f.y, top), bottom) - f.y;
    const vfloat y_on_dx = vmin(vmax(-0.5f * f.b * dx * vrcp(f.c), top - f.y), bottom - f.y);
    const vfloat x_on_dy = vmin(vmax(-0.5f * f.b * dy * vrcp(f.a), left - f.x), right - f.x);
    const vfloat power_dx = dx * (f.a * dx + f.b * y_on_dx) + f.c * y_on_dx * y_on_dx;
    const vfloat power_dy = x_on_dy * (f.a * x_on_dy + f.b * dy) + f.c * dy * dy;
    const float slack = 1e-3f;              // for the rounding of large offsets; each pixel tests again
    return vmax(power_dx, power_dy) + f.peak >= POWER_MIN - slack;
}

// A splat that touches the warp's rectangle. The coefficients of its power are those about the warp's first pixel.
struct Hit { float at_first, along_u, along_v, a, b, c, red, green, blue; };

// At the pixel u columns and v rows from the first one. Pixels of the same column share all but two operations.
__device__ __forceinline__ vfloat power_at(const Hit& h, vfloat u, vfloat v)
{
    return (h.at_first + u * (h.along_u + h.a * u)) + v * ((h.along_v + h.b * u) + h.c * v);
}

#define RING 64                             // a power of two, at least 32 + 2 UNROLL + MATRIX_SPLATS
#ifdef SPLAT_CPU
#undef UNROLL
#define UNROLL 1
#endif
#ifndef UNROLL
#define UNROLL 4                            // hits that are visited together
#endif

#ifdef SPLAT_CPU
struct Ring { float rows[8][32]; int splats[32]; };    // all 32 splats: they cost less than moving the hits
__device__ __forceinline__ float2 offset_of(const Ring& ring, int slot) { return make_float2(ring.rows[6][slot], ring.rows[7][slot]); }
#else
struct Ring {
    float4 first[RING], second[RING];
    float blue[RING];
    int splats[RING];
#if OFFSETS
    float2 offsets[RING];
#endif
};
#if OFFSETS                              // from the splat's mean to the warp's first pixel
__device__ __forceinline__ float2 offset_of(const Ring& ring, int slot) { return ring.offsets[slot]; }
#endif
#endif

// Prepares the lane's splat if it hits, and puts it into the ring behind `tail` hits.
__device__ __forceinline__ void put_hits(
    Ring& ring, unsigned tail, unsigned hits, vbool hit, const Footprint& f, const PairList& list, const Pixels& pixels)
{
    const vfloat dx = pixels.left - f.x, dy = pixels.top - f.y;
    const vfloat at_first = f.peak + dx * (f.a * dx + f.b * dy) + f.c * dy * dy;
    const vfloat along_u = 2.0f * f.a * dx + f.b * dy, along_v = 2.0f * f.c * dy + f.b * dx;
#ifdef SPLAT_CPU
    store_row(ring.rows[0], at_first, true); store_row(ring.rows[1], along_u, true); store_row(ring.rows[2], along_v, true);
    store_row(ring.rows[3], f.a, true); store_row(ring.rows[4], f.b, true); store_row(ring.rows[5], f.c, true);
    store_row(ring.rows[6], dx, true); store_row(ring.rows[7], dy, true); store_row(ring.splats, f.splat, true);
#else
    if (!hit) return;
    const float4 color = list.colors[f.splat];
    const int slot = (tail + count_below(hits)) % RING;
    ring.first[slot] = make_float4(at_first, along_u, along_v, f.a);
    ring.second[slot] = make_float4(f.b, f.c, color.x, color.y);
    ring.blue[slot] = color.z; ring.splats[slot] = f.splat;
#if OFFSETS
    ring.offsets[slot] = make_float2(dx, dy);
#endif
#endif
}

__device__ __forceinline__ Hit get_hit(const Ring& ring, const PairList& list, int slot)
{
#ifdef SPLAT_CPU
    const float4 color = list.colors[ring.splats[slot]];
    const Hit h = {ring.rows[0][slot], ring.rows[1][slot], ring.rows[2][slot], ring.rows[3][slot], ring.rows[4][slot], ring.rows[5][slot],
                   color.x, color.y, color.z};
#else
    const float4 p = ring.first[slot], q = ring.second[slot];
    const Hit h = {p.x, p.y, p.z, p.w, q.x, q.y, q.z, q.w, ring.blue[slot]};
#endif
    return h;
}

#ifndef SPLAT_CPU
// Visits UNROLL hits. All loads come first, because the compiler cannot move them before the stores of the visit.
template <class V> __device__ __forceinline__ void visit_group(const Ring& ring, const PairList& list, unsigned place, unsigned slot, V visit)
{
    Hit hits[UNROLL];
#pragma unroll
    for (int k = 0; k < UNROLL; ++k) hits[k] = get_hit(ring, list, slot + k);
    visit(hits, place, slot);
}
#endif

// Visits, in order, those of n pairs from `first` on whose splats touch the warp's pixels, while go_on() holds. Returns their number.
//     visit(hits, place, slot)      UNROLL hits; that with index k is hit place + k since `visited`, and has the splat ring.splats[slot + k]
//     visited(slot, count)          after 2 UNROLL hits, and after fewer at the end: `count` hits, the first of which has the splat
//                                   ring.splats[slot]; not on the CPU
// Up to UNROLL - 1 visits without effect follow the last hit.
template <class G, class V, class D>
__device__ __forceinline__ int visit_hits(
    const PairList& list, Ring& ring, const Camera& camera, int first, int n, const Pixels& pixels, G go_on, V visit, D visited)
{
    unsigned head = 0, tail = 0;            // hits visited, hits found
    vint next_splat = load(list.splat_from_pair + first, lane_id(), lane_id() < n);     // loaded ahead, to hide latencies
    vint later_splat = load(list.splat_from_pair + first + 32, lane_id(), lane_id() + 32 < n);
    Footprint next = load_footprint(list, camera, next_splat, lane_id() < n);
    for (int group = 0; group < n && go_on(); group += 32) {
        const vint i = group + lane_id();
        const Footprint footprint = next;
        next = load_footprint(list, camera, later_splat, i + 32 < n);
        later_splat = load(list.splat_from_pair + first + group + 64, lane_id(), i + 64 < n);
        const vbool hit = (i < n) & touches(footprint, pixels);
        const unsigned hits = ballot(hit);
        __syncwarp();                       // until all lanes have read the hits that the new ones replace
        put_hits(ring, tail, hits, hit, footprint, list, pixels);
        __syncwarp();
        tail += __popc(hits);
#ifdef SPLAT_CPU
        for (unsigned left = hits; left; left &= left - 1) {
            const int j = __ffs(left) - 1;
            const Hit one[1] = {get_hit(ring, list, j)};
            visit(one, 0, j);
        }
#else
        for (; tail - head >= 2 * UNROLL; head += 2 * UNROLL) {     // less work for addresses than with one group
            const unsigned slot = head % RING;
            visit_group(ring, list, 0, slot, visit);
            visit_group(ring, list, UNROLL, slot + UNROLL, visit);
            visited(slot, 2 * UNROLL);
        }
#endif
    }
#ifndef SPLAT_CPU
    if (tail > head) {
        const int slot = (tail + lane_id()) % RING;
        if (lane_id() < UNROLL) {
            ring.first[slot] = make_float4(-1e30f, 0.0f, 0.0f, 0.0f);
            ring.second[slot] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            ring.blue[slot] = 0.0f;
        }
        __syncwarp();
        for (; head < tail; head += UNROLL) visit_group(ring, list, head % (2 * UNROLL), head % RING, visit);
        visited((tail - tail % (2 * UNROLL)) % RING, tail % (2 * UNROLL));
        __syncwarp();
    }
#endif
    return tail;
}

// A splat contributes to a pixel if its power is large enough and the pixel has not ended.
__device__ __forceinline__ vbool contributes(vfloat power, vfloat T) { return (power >= POWER_MIN) & (T >= TRANSMITTANCE_MIN); }

// a where the splat contributes, else 0: three instructions; compilers use four.
__device__ __forceinline__ vfloat if_contributes(vfloat power, vfloat T, vfloat a)
{
#ifdef SPLAT_CPU
    return select(contributes(power, T), a, vfloat(0.0f));
#else
    float result;
    asm("{ .reg .pred p, q; setp.ge.f32 p, %1, %2; setp.ge.and.f32 q, %3, %4, p; selp.f32 %0, %5, 0f00000000, q; }"
        : "=f"(result) : "f"(power), "f"(POWER_MIN), "f"(T), "f"(TRANSMITTANCE_MIN), "f"(a));
    return result;
#endif
}

#define T_OUTSIDE (0.5f * TRANSMITTANCE_MIN)  // pixels outside the image have ended; not 0, which would be divided by

// Is there a pixel that has not ended?
__device__ __forceinline__ bool any_light(const vfloat (&T)[PIXELS])
{
    vbool light = T[0] >= TRANSMITTANCE_MIN;
    FOR_PIXELS(k) light = light | (T[k] >= TRANSMITTANCE_MIN);
    return any(light);
}

// Index of the state of a warp's k-th pixels in a plane of 256. The order is by blocks of 8x4 pixels, the same for every PIXELS.
__device__ __forceinline__ int state_offset(int warp, int k) { return 32 * ((warp & 1) + 2 * ((warp >> 1) * PIXELS + k)); }

// Index of the state at the start of segment k >= 1 of a tile. Slots do not overlap: n pairs have fewer than n / SEGMENT + 1 segments.
__device__ __forceinline__ size_t state_slot(unsigned tile, unsigned tile_begin, int k)
{
    return (size_t)(tile_begin / SEGMENT + tile + k) * 4 * TILE_PIXELS;
}

// Segments of tiles for blend_backward, one block each. GPUs start blocks in order, so blend lists the segments with the most
// hits first, and the last blocks are short (longest processing time first, Graham 1969). Bins suffice for the order.
#define COUNTED_SEGMENTS 16         // of a tile; the hits of later ones are added to those of the last

// Bin of a segment with that many hits by warps of 8x8 pixels, at most 4 * SEGMENT.
__device__ __forceinline__ int bin_of(unsigned hits) { return hits >= 512 ? 0 : hits >= 256 ? 1 : hits >= 128 ? 2 : 3; }

__device__ __forceinline__ void list_segment(
    IterState* state /* [1] */, uint2* segments /* [SEGMENT_BINS, max_segments] */, unsigned max_segments, unsigned hits, uint2 segment)
{
    const int bin = bin_of(hits);
    segments[bin * max_segments + atomicAdd(&state->segments_in_bins[bin], 1u)] = segment;
}

// Finds the segment of a block. False: it has none.
__device__ __forceinline__ bool segment_of(
    const IterState& state, const uint2* segments /* [SEGMENT_BINS, max_segments] */, unsigned max_segments, unsigned block, uint2& segment)
{
    for (int bin = 0; bin < SEGMENT_BINS; ++bin) {
        const unsigned num = state.segments_in_bins[bin];
        if (block < num) { segment = segments[bin * max_segments + block]; return true; }
        block -= num;
    }
    return false;
}
