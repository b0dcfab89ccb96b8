// Exploration noise of 3DGS-MCMC (Kheradmand et al. 2024, eq. 9): position += strength * (covariance of the splat) * (standard normal).
// The strength is large for transparent splats and nearly 0 for opaque ones.
#pragma once
#include "raster/projection.cuh"

#define MIN_STRENGTH 1e-12f

struct Noise {
    unsigned seed;
    float scale;                    // multiplies the learning rate of positions; 0: no noise
};

// Random bits per splat, 0 to 2^24 - 1; they differ for each seed and step.
__device__ __forceinline__ vfloat random_bits(unsigned seed, unsigned step, vint splat)
{
    const unsigned start = pcg(pcg(seed) ^ step);
    return to_float(map_each(splat, [=](int i) { return (int)(pcg(start ^ (unsigned)i) >> 8); }));
}

// Two independent standard normals (Box and Muller 1958).
__device__ __forceinline__ void two_normals(unsigned seed, unsigned step, vint splat, vfloat& a, vfloat& b)
{
    const float unit = 1.0f / (1 << 24);
    const vfloat radius = sqrtf(-2.0f * logf((random_bits(seed, step, splat) + 1.0f) * unit));
    const vfloat angle = random_bits(seed + 1, step, splat) * (6.283185307f * unit);
    a = radius * __cosf(angle);
    b = radius * __sinf(angle);
}

// Displacement of the splats in m, in world units. p: their raw geometry, one value per row.
__device__ __forceinline__ vfloat3 noise_step(const Noise& noise, const IterState& state, const vfloat* p /* [BASE_ROWS] */, vint splat, vbool m)
{
    const vfloat strength = noise.scale * state.lr[LR_MEANS] * sigmoid(-100.0f * (sigmoid(p[ROW_OPACITY]) - 0.005f));
    m = m & (strength > MIN_STRENGTH);
    const vfloat3 zero = make_vec(0.0f, 0.0f, 0.0f);
    if (!some(m)) return zero;
    vfloat4 quat;
    quat.x = p[ROW_QUAT]; quat.y = p[ROW_QUAT + 1]; quat.z = p[ROW_QUAT + 2]; quat.w = p[ROW_QUAT + 3];
    const Mat3 r = unit_rotation(quat);
    vfloat3 normal;
    vfloat unused;
    two_normals(noise.seed, state.step, splat, normal.x, normal.y);
    two_normals(noise.seed + 2, state.step, splat, normal.z, unused);
    const vfloat3 local = mul_transposed(r, normal);                    // covariance times normal: R S^2 R^T n
    const vfloat* s = p + ROW_LOG_SCALE;
    const vfloat3 step = scale(strength, mul(r, make_vec(local.x * expf(2.0f * s[0]), local.y * expf(2.0f * s[1]), local.z * expf(2.0f * s[2]))));
    return select(m & (fabsf(step.x) + fabsf(step.y) + fabsf(step.z) < 1e30f), step, zero);
}
