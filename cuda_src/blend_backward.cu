// Gradients of the blend. A block owns one segment of a tile: at most 256 splats and all 256 pixels; a warp owns 8x4 pixels
// and walks the segment front to back from the saved state, so that long tiles are shared by many blocks. What lies behind a
// splat is the final colour minus the colour so far. A warp adds its pixels' gradients up in a butterfly that ends with one
// value a lane, and sends them off as one atomic row (see warp_add).
//
// What is summed are moments of g = dL/dpower over pixels, with (dx, dy) = pixel - mean2d: every gradient of the ellipse is
// linear in them (project_backward applies it), and they cost half of what the gradients would.
#include "blend.cuh"

#ifdef ABSGRAD
#define NUM_SUMS 11                                 // and the sums of |d mean2d| (AbsGS, Ye et al. 2024)
#else
#define NUM_SUMS 9
#endif

extern "C" __global__ void __launch_bounds__(TILE_PIXELS) blend_backward(
    const Camera* __restrict__ cameras,             // [num_views]
    const Step* __restrict__ state,                 // [1]
    const uint2* __restrict__ segments,             // [slots] tile, segment
    const unsigned* __restrict__ tile_begins,       // [num_tiles + 1]
    const unsigned* __restrict__ splat_from_pair,   // [pair_capacity]
    const float2* __restrict__ means2d,             // [capacity] px
    const float4* __restrict__ conic_opacity,       // [capacity] px^-2, 1
    const float4* __restrict__ colors,              // [capacity] rgb
    const float* __restrict__ image,                // [3, height, width]
    const float* __restrict__ final_T,              // [height, width]
    const int* __restrict__ last_pair,              // [height, width]
    const float* __restrict__ states,               // [slots, 4, 256] T, rgb where a segment begins
    const float* __restrict__ d_image,              // [3, height, width]
    float* __restrict__ d_splats)                   // [capacity, 12] sums of g (1, dx, dy, dx^2, dx dy, dy^2), d rgb,
                                                    //   |d mean2d| x, y, unused
{
    __shared__ Staged batch;
    if (state->halted || blockIdx.x >= state->num_segments) return;
    const Camera& camera = cameras[state->view];
    const unsigned tile = segments[blockIdx.x].x;
    const int segment = segments[blockIdx.x].y;
    const int column = tile % camera.tiles_x, row = tile / camera.tiles_x, warp = threadIdx.y;
    const unsigned begin = tile_begins[tile], first = begin + segment * SEGMENT;
    const int n = min((unsigned)BATCH, tile_begins[tile + 1] - first);
    stage(batch, n, splat_from_pair + first, means2d, conic_opacity, colors);

    const Pixels pixels = pixels_of_warp(camera, column, row, warp);
    const vfloat px = to_float(pixels.x) + 0.5f, py = to_float(pixels.y) + 0.5f;
    const float left = column * TILE + (warp & 1) * 8 + 0.5f, top = row * TILE + (warp >> 1) * 4 + 0.5f;
    const vint p = pixels.y * camera.width + pixels.x;
    const int plane = camera.width * camera.height;
    const vint last = load(last_pair, p, pixels.inside) - (int)first;     // in this segment's numbering
    const vfloat d_red = load(d_image, p, pixels.inside), d_green = load(d_image + plane, p, pixels.inside),
                 d_blue = load(d_image + 2 * plane, p, pixels.inside);
    vfloat T = 1.0f;
    // d_image . (colour of everything from here on, background included)
    vfloat behind = load(image, p, pixels.inside) * d_red + load(image + plane, p, pixels.inside) * d_green
                  + load(image + 2 * plane, p, pixels.inside) * d_blue;
    if (segment > 0) {
        const float* s = states + state_slot(tile, begin, segment) + warp * 32;
        T = load_row(s, true);
        behind = behind - load_row(s + TILE_PIXELS, true) * d_red - load_row(s + 2 * TILE_PIXELS, true) * d_green
               - load_row(s + 3 * TILE_PIXELS, true) * d_blue;
    }
    const int warp_last = min(warp_max(last), n);
    __syncthreads();

    for (int group = 0; group < warp_last; group += 32) {
        for (unsigned hits = hits_of_warp(batch, group, warp_last, left, top); hits; hits &= hits - 1) {
            const int j = group + __ffs(hits) - 1;
            const float4 shape = batch.shape[j], rest = batch.rest[j], color = batch.color[j];
            const vfloat dx = px - shape.x, dy = py - shape.y;
            const vfloat power = dx * (shape.z * dx + shape.w * dy) + rest.x * dy * dy;
            const vbool on = (last > j) & (power >= rest.z);
            if (!any(on)) continue;
            const vfloat unclipped = rest.y * vexp2(power);
            const vfloat alpha = select(on, vmin(unclipped, ALPHA_MAX), vfloat(0.0f));
            const vfloat weight = alpha * T;
            const vfloat cd = color.x * d_red + color.y * d_green + color.z * d_blue;
            behind -= weight * cd;
            const vfloat d_alpha = T * cd - behind * vrcp(1.0f - alpha);
            const vfloat g = select(on & (unclipped < ALPHA_MAX), unclipped * d_alpha, vfloat(0.0f));
            T *= 1.0f - alpha;
            const vfloat gx = g * dx, gy = g * dy;
#ifdef ABSGRAD
            const vfloat mx = 2.0f * shape.z * gx + shape.w * gy, my = shape.w * gx + 2.0f * rest.x * gy;
            vfloat sums[NUM_SUMS] = {g, gx, gy, gx * dx, gx * dy, gy * dy, weight * d_red, weight * d_green, weight * d_blue,
                                     vabs(mx) * (1.0f / LOG2E), vabs(my) * (1.0f / LOG2E)};
#else
            vfloat sums[NUM_SUMS] = {g, gx, gy, gx * dx, gx * dy, gy * dy, weight * d_red, weight * d_green, weight * d_blue};
#endif
            warp_add(d_splats + (size_t)splat_from_pair[first + j] * 12, sums);
        }
    }
}
