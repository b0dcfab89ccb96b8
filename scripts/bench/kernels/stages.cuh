// Shared by the stages of the blend's backward pass (stage0_original.cu to stage3_two_levels.cu; timed by `scripts/bench/bench_kernels.py
// stages`): a splat, a pixel, and the splat's gradients at the pixel. The stages differ in where they read splats from and how they sum
// gradients. cuda_src/raster/blend_backward.cu is the last stage.
//
// The walk follows 3D Gaussian Splatting (Kerbl et al. 2023, sec. 6): back to front, starting with the last splat that contributed. The
// forward pass stores the transmittance behind that splat; dividing by 1 - alpha yields the transmittance in front. Equations:
// docs/method.md, "Compositing" and "Moments".
#pragma once
#include "common.cuh"

#define ALL_LANES 0xffffffffu
#define NUM_GRADIENTS 9         // columns of d_splats [capacity, SPLAT_SUMS]: mean2d (x, y), conic (A, B, C), opacity, rgb

struct Splat {
    float2 mean;                // px
    unsigned id;
    float4 conic_opacity;       // A, B, C (px^-2), opacity
    float4 color;               // rgb, unused
};

struct Pixel {
    float x, y;                 // its centre, px
    float d[3];                 // dL/d rgb
    float T;                    // transmittance behind the next splat of the walk
    float behind;               // d . (colour from behind that splat, with background)
    unsigned last;              // 1 + index of the last pair that contributed
};

// The block's threads fetch the tile's splats before `stop`, one each, farthest first, no farther than `begin`. Returns how many.
__device__ __forceinline__ unsigned fetch_splats(
    Splat* splats /* [TILE_PIXELS], shared */, unsigned begin, unsigned stop, const unsigned* __restrict__ splat_from_pair,
    const float2* __restrict__ means2d, const float4* __restrict__ conic_opacity, const float4* __restrict__ colors)
{
    const unsigned num = min(stop - begin, (unsigned)TILE_PIXELS);
    __syncthreads();                                                // all threads are done with the previous splats
    if (threadIdx.x < num) {
        const unsigned id = splat_from_pair[stop - 1 - threadIdx.x];
        splats[threadIdx.x] = {means2d[id], id, conic_opacity[id], colors[id]};
    }
    __syncthreads();
    return num;
}

// Loads pixel (column, row) of a tile. Outside the image `last` is the tile's first pair, so nothing contributes.
__device__ __forceinline__ Pixel load_pixel(
    const Camera& camera, const float* background, unsigned tile, int column, int row, unsigned first_pair,
    const float* __restrict__ final_T, const int* __restrict__ last_pair, const float* __restrict__ d_image)
{
    const int x = tile % camera.tiles_x * TILE + column, y = tile / camera.tiles_x * TILE + row;
    const int p = y * camera.width + x, plane = camera.width * camera.height;
    Pixel pixel = {x + 0.5f, y + 0.5f, {}, 0.0f, 0.0f, first_pair};
    if (x >= camera.width || y >= camera.height) return pixel;
    pixel.T = final_T[p];
    pixel.last = last_pair[p];
    for (int c = 0; c < 3; ++c) {
        pixel.d[c] = d_image[p + c * plane];
        pixel.behind += pixel.d[c] * pixel.T * background[c];
    }
    return pixel;
}

// The splat's gradients at a pixel; the pixel's state then refers to the front of the splat. Without a contribution it returns false and
// changes nothing.
__device__ __forceinline__ bool splat_gradients(const Splat& splat, Pixel& pixel, float (&gradients)[NUM_GRADIENTS])
{
    const float A = splat.conic_opacity.x, B = splat.conic_opacity.y, C = splat.conic_opacity.z, opacity = splat.conic_opacity.w;
    const float dx = pixel.x - splat.mean.x, dy = pixel.y - splat.mean.y;
    const float falloff = expf(-0.5f * (A * dx * dx + C * dy * dy) - B * dx * dy);
    const float unclipped = opacity * falloff;
    if (unclipped < ALPHA_MIN) return false;

    const float alpha = fminf(unclipped, ALPHA_MAX);
    pixel.T /= 1.0f - alpha;                                        // transmittance in front of the splat
    const float weight = alpha * pixel.T;
    const float along_d = splat.color.x * pixel.d[0] + splat.color.y * pixel.d[1] + splat.color.z * pixel.d[2];
    const float d_alpha = pixel.T * along_d - pixel.behind / (1.0f - alpha);
    pixel.behind += weight * along_d;

    const float d_unclipped = unclipped < ALPHA_MAX ? d_alpha : 0.0f;       // a clipped alpha is constant
    const float d_power = unclipped * d_unclipped;
    gradients[0] = d_power * (A * dx + B * dy);
    gradients[1] = d_power * (B * dx + C * dy);
    gradients[2] = -0.5f * d_power * dx * dx;
    gradients[3] = -d_power * dx * dy;
    gradients[4] = -0.5f * d_power * dy * dy;
    gradients[5] = falloff * d_unclipped;
    for (int c = 0; c < 3; ++c) gradients[6 + c] = weight * pixel.d[c];
    return true;
}

// row[k] += sum over the warp's lanes of gradients[k]: five shuffles and one atomic per value. All lanes call it.
__device__ __forceinline__ void add_over_warp(float* row, float (&gradients)[NUM_GRADIENTS])
{
    for (int k = 0; k < NUM_GRADIENTS; ++k) {
        for (int bit = 16; bit > 0; bit /= 2) gradients[k] += __shfl_xor_sync(ALL_LANES, gradients[k], bit);
        if (threadIdx.x % 32 == 0) atomicAdd(row + k, gradients[k]);
    }
}
