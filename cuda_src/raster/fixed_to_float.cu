// Converts the fixed-point sums of a deterministic blend_backward to the floats that project_backward reads. One thread owns one
// splat and resets its fixed-point sums for the next step.
// Launched by splat_cli/render/blend.py.
#include "raster/fixed.cuh"

extern "C" __global__ void fixed_to_float(
    const Camera* __restrict__ cameras,             // [num_views]
    const IterState* __restrict__ state,            // [1]
    const float* __restrict__ depths,               // [capacity] 0 if invisible
    const float4* __restrict__ conic_opacity,       // [capacity] conic in px^-2, opacity
    float* __restrict__ fixed,                      // [capacity, 2 SPLAT_SUMS] the bits of 64-bit integers
    float* __restrict__ d_splats)                   // [capacity, SPLAT_SUMS]
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (int)state->num_splats || state->overflowed || !(depths[i] > 0.0f)) return;
    const int num_pixels = cameras[state->view].num_pixels;
    const float4 conic = conic_opacity[i];
    long long* sums = (long long*)fixed + (size_t)i * SPLAT_SUMS;
    const bool poisoned = sums[FIXED_POISON] != 0;
    for (int k = 0; k < SPLAT_SUMS; ++k) {
        const float units = (float)sums[k] * (1.0f / FIXED_ONE);
        d_splats[(size_t)i * SPLAT_SUMS + k] = poisoned ? 3e38f : units * fixed_unit(k, conic, num_pixels);
        sums[k] = 0;
    }
}
