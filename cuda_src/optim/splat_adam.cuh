// In-place Adam on the raw parameters of a warp's splats: all rows of their geometry, or one coefficient of their colour.
#pragma once
#include "common.cuh"
#include "lanes.cuh"
#include "optim/langevin_noise.cuh"
#include "optim/local_frame_adam.cuh"
#include "optim/moments.cuh"

#ifdef BF16_MOMENTS
constexpr bool PACKED = true;
#else
constexpr bool PACKED = false;
#endif

#define GEOMETRY_ROWS ROW_SH0       // rows of parameters before the colours

// Parameters and moments to update. Addresses of the lane's own elements of the first plane.
struct AdamPlanes {
    float* __restrict__ params;     // [rows, stride]
    Moments<PACKED> moments;
    size_t stride, moment_stride;   // columns of a row
};

// Positions use the splat's local frame (local_frame_adam.cuh), other rows plain Adam; then noise moves positions. gradients: one per row
// of the parameters. raw: the splats before the step.
__device__ __forceinline__ void step_geometry(
    const AdamPlanes& planes, const Gaussian& raw, const vfloat (&gradients)[GEOMETRY_ROWS], const Noise& noise, const IterState& state,
    vint splat, vbool on)
{
    vfloat p[GEOMETRY_ROWS], m[GEOMETRY_ROWS], v[GEOMETRY_ROWS];
#pragma unroll
    for (int row = 0; row < GEOMETRY_ROWS; ++row) {     // all loads before the first store
        p[row] = load_own(planes.params + row * planes.stride, on);
        load_moments(planes.moments, row * planes.moment_stride, m[row], v[row], on);
    }
    const vint seed = rounding_seed<PACKED>(state, splat);
    const vfloat3 off = mean_step(raw, make_vec(gradients[0], gradients[1], gradients[2]), m, v, state);
    p[0] -= off.x; p[1] -= off.y; p[2] -= off.z;
#pragma unroll
    for (int row = 0; row < GEOMETRY_ROWS; ++row) {
        const int rate = row < ROW_QUAT ? LR_LOG_SCALES : row < ROW_OPACITY ? LR_QUATS : LR_OPACITIES;
        if (row >= ROW_LOG_SCALE) adam_update(p[row], m[row], v[row], gradients[row], state.lr[rate], state);
        if (row >= ROW_LOG_SCALE) store_own(planes.params + row * planes.stride, p[row], on);
        store_moments(planes.moments, row * planes.moment_stride, m[row], v[row], seed, row, on);
    }
    vfloat3 mean = make_vec(p[0], p[1], p[2]);
    if (noise.scale > 0.0f) mean = add(mean, noise_step(noise, state, p, splat, on));
    store_vec(planes.params, planes.stride, mean, on);
}

// Adam step of coefficient k of each splat's colour in `on`. Lanes of `sectors` (sectors_of(on)) store what they have read: a store with
// gaps costs a transfer per gap where the planes are in host memory. planes: begin at the row of its first channel.
__device__ __forceinline__ void step_color(
    const AdamPlanes& planes, vfloat3 g, int k, const IterState& state, vint splat, vbool on, vbool sectors)
{
    const size_t stride = planes.stride, next = planes.moment_stride;
    const float lr = state.lr[k == 0 ? LR_SH0 : LR_SHN];
    const vfloat gradients[3] = {g.x, g.y, g.z};
    vfloat p[3], m[3], v[3];
#pragma unroll
    for (int c = 0; c < 3; ++c) {       // all loads before the first store
        p[c] = load_own(planes.params + c * stride, sectors);
        load_moments(planes.moments, c * next, m[c], v[c], sectors);
    }
    const vint seed = rounding_seed<PACKED>(state, splat);
#pragma unroll
    for (int c = 0; c < 3; ++c) {
        vfloat new_p = p[c], new_m = m[c], new_v = v[c];
        adam_update(new_p, new_m, new_v, gradients[c], lr, state);
        store_own(planes.params + c * stride, select(on, new_p, p[c]), sectors);
        const vfloat first = select(on, new_m, m[c]), second = select(on, new_v, v[c]);     // packing does not round these again
        store_moments(planes.moments, c * next, first, second, seed, ROW_SH0 + 3 * k + c, sectors);
    }
}
