// Gradients of the blend, plainly: the baseline that benchmarks compare with, and an oracle for tests.
// One thread owns one pixel and walks its tile's splats back to front; each of the nine sums is reduced over the warp by
// shuffles and added with one atomic a warp. Same outputs as blend_backward.
#include "common.cuh"

extern "C" __global__ void __launch_bounds__(TILE_PIXELS) blend_backward_plain(
    const Camera* __restrict__ cameras,             // [num_views]
    const IterState* __restrict__ state,    // [1]
    const unsigned* __restrict__ tile_begins,       // [num_tiles + 1]
    const unsigned* __restrict__ splat_from_pair,   // [pair_capacity]
    const float2* __restrict__ means2d,             // [capacity] px
    const float4* __restrict__ conic_opacity,       // [capacity] px^-2, 1
    const float4* __restrict__ colors,              // [capacity] rgb
    const float* __restrict__ final_T,              // [height, width]
    const int* __restrict__ last_pair,              // [height, width]
    const float* __restrict__ d_image,              // [3, height, width]
    float* __restrict__ d_splats)                   // [capacity, SPLAT_SUMS]
{
    __shared__ unsigned ids[TILE_PIXELS];
    __shared__ float2 means[TILE_PIXELS];
    __shared__ float4 conics[TILE_PIXELS], rgbs[TILE_PIXELS];
    const Camera& camera = cameras[state->view];
    if (state->overflowed || blockIdx.x >= (unsigned)(camera.tiles_x * camera.tiles_y)) return;
    const int x = blockIdx.x % camera.tiles_x * TILE + threadIdx.x % TILE;
    const int y = blockIdx.x / camera.tiles_x * TILE + threadIdx.x / TILE;
    const bool inside = x < camera.width && y < camera.height;
    const int p = inside ? y * camera.width + x : 0, plane = camera.width * camera.height;
    const int begin = tile_begins[blockIdx.x], end = tile_begins[blockIdx.x + 1], last = inside ? last_pair[p] : begin;
    float d[3], T = inside ? final_T[p] : 0.0f, behind = 0.0f;
    for (int c = 0; c < 3; ++c) {
        d[c] = inside ? d_image[p + c * plane] : 0.0f;
        behind += T * state->background[c] * d[c];
    }
    for (int stop = end; stop > begin; stop -= TILE_PIXELS) {
        const int n = min(TILE_PIXELS, stop - begin);
        __syncthreads();
        if ((int)threadIdx.x < n) {
            const unsigned id = splat_from_pair[stop - 1 - threadIdx.x];
            ids[threadIdx.x] = id; means[threadIdx.x] = means2d[id];
            conics[threadIdx.x] = conic_opacity[id]; rgbs[threadIdx.x] = colors[id];
        }
        __syncthreads();
        for (int j = 0; j < n; ++j) {
            const float4 q = conics[j], rgb = rgbs[j];
            const float dx = x + 0.5f - means[j].x, dy = y + 0.5f - means[j].y;
            const float unclipped = q.w * expf(-0.5f * (q.x * dx * dx + q.z * dy * dy) - q.y * dx * dy);
            const bool on = stop - 1 - j < last && unclipped >= ALPHA_MIN;
            if (!__any_sync(0xffffffffu, on)) continue;
            const float alpha = on ? fminf(unclipped, ALPHA_MAX) : 0.0f;
            T /= 1.0f - alpha;
            const float weight = alpha * T, cd = rgb.x * d[0] + rgb.y * d[1] + rgb.z * d[2];
            const float d_alpha = T * cd - behind / (1.0f - alpha);
            behind += weight * cd;
            const float g = on && unclipped < ALPHA_MAX ? unclipped * d_alpha : 0.0f;
            float sums[9] = {g, g * dx, g * dy, g * dx * dx, g * dx * dy, g * dy * dy, weight * d[0], weight * d[1], weight * d[2]};
            for (int k = 0; k < 9; ++k) {
                for (int o = 16; o > 0; o /= 2) sums[k] += __shfl_xor_sync(0xffffffffu, sums[k], o);
                if (threadIdx.x % 32 == 0) atomicAdd(&d_splats[(size_t)ids[j] * SPLAT_SUMS + k], sums[k]);
            }
        }
    }
}
