// Exploration noise of 3DGS-MCMC (Kheradmand et al. 2024, eq. 9): position += strength * (covariance of the splat) * (standard normal).
// The strength is large for transparent splats and nearly 0 for opaque ones. One thread owns one splat.
#include "raster/projection.cuh"
#include "raster/slots.cuh"

__device__ __forceinline__ unsigned pcg3(unsigned a, unsigned b, unsigned c) { return pcg(pcg(pcg(a) ^ b) ^ c); }

// Moves splat `splat`, which is in column i.
__device__ __forceinline__ void add_noise(
    const IterState& state, int capacity, int splat, int i, unsigned seed, float noise_scale,
    float* __restrict__ params /* [rows, capacity] */)
{
    const size_t stride = capacity;
    const Gaussian g = load_gaussian(params + i, stride, true);
    const float strength = noise_scale * state.lr[LR_MEANS] * sigmoid(-100.0f * (g.opacity - 0.005f));
    if (!(strength > 1e-12f)) return;
    const Mat3 r = unit_rotation(g.quat);

    float normal[4];                        // Box-Muller
    for (int k = 0; k < 4; k += 2) {
        const float u = (pcg3(seed + k, state.step, splat) + 1.0f) * (1.0f / 4294967296.0f);
        const float angle = pcg3(seed + k + 1, state.step, splat) * (6.283185307f / 4294967296.0f);
        const float radius = sqrtf(-2.0f * logf(fminf(u, 1.0f)));
        normal[k] = radius * cosf(angle);
        normal[k + 1] = radius * sinf(angle);
    }
    float3 local = mul_transposed(r, make_vec(normal[0], normal[1], normal[2]));     // covariance times noise: R S^2 R^T n
    local = make_vec(local.x * g.scale.x * g.scale.x, local.y * g.scale.y * g.scale.y, local.z * g.scale.z * g.scale.z);
    const float3 step = scale(strength, mul(r, local));
    if (!is_finite(fabsf(step.x) + fabsf(step.y) + fabsf(step.z))) return;
    params[i] += step.x; params[stride + i] += step.y; params[2 * stride + i] += step.z;
}

extern "C" __global__ void langevin_noise(
    const IterState* __restrict__ state,    // [1]
    int capacity,
    Share share,                            // splats to move
    unsigned seed,
    float noise_scale,                      // multiplies the learning rate of positions
    float* __restrict__ params)             // [rows, capacity]; means are changed
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, splat = splat_of(share, i);
    if (splat < (int)state->num_frozen || splat >= (int)state->num_splats || state->overflowed) return;
    add_noise(*state, capacity, splat, i, seed, noise_scale, params);
}

// The same for splats that a view of the batch shows. Other splats are not read.
extern "C" __global__ void langevin_noise_of_visible(
    const IterState* __restrict__ state,    // [1]
    int capacity,
    Share share,                            // splats to move if they are visible
    SlotLayout layout,                      // sizes of the array `depths`
    const float* __restrict__ depths,       // [slots, columns] 0 if invisible
    unsigned seed,
    float noise_scale,                      // multiplies the learning rate of positions
    float* __restrict__ params)             // [rows, capacity]; means are changed
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, splat = splat_of(share, i);
    if (splat < (int)state->num_frozen || splat >= (int)state->num_splats || state->overflowed) return;
    if (!seen(depths + i, layout, true)) return;
    add_noise(*state, capacity, splat, i, seed, noise_scale, params);
}
