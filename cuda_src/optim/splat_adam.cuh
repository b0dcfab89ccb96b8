// In-place Adam on the raw parameters of a warp's splats: geometry and constant colour, or one view-dependent coefficient.
#pragma once
#include "common.cuh"
#include "lanes.cuh"
#include "optim/langevin_noise.cuh"
#include "optim/local_frame_adam.cuh"

#define BASE_ROWS ROW_SHN           // rows of geometry and constant colour, which have second moments

// Parameters and moments to update. Addresses of the lane's own elements of the first plane.
struct AdamPlanes {
    float* __restrict__ params;     // [rows, stride]
    float* __restrict__ moments1;   // [rows, moment_stride]
    float* __restrict__ moments2;   // [BASE_ROWS, moment_stride]
    size_t stride, moment_stride;   // columns of a row
};

__device__ __forceinline__ int learning_rate_of(int row)
{
    return row < ROW_QUAT ? LR_LOG_SCALES : row < ROW_OPACITY ? LR_QUATS : row < ROW_SH0 ? LR_OPACITIES : LR_SH0;
}

// Positions use the splat's local frame (local_frame_adam.cuh), other rows plain Adam; then noise moves positions. gradients: one per row
// of the parameters. raw: the splats before the step.
__device__ __forceinline__ void step_base(
    const AdamPlanes& planes, const Gaussian& raw, const vfloat (&gradients)[BASE_ROWS], const Noise& noise, const IterState& state,
    vint splat, vbool on)
{
    vfloat p[BASE_ROWS], m[BASE_ROWS], v[BASE_ROWS];
#pragma unroll
    for (int row = 0; row < BASE_ROWS; ++row) {         // all loads before the first store
        p[row] = load_own(planes.params + row * planes.stride, on);
        m[row] = load_own(planes.moments1 + row * planes.moment_stride, on);
        v[row] = load_own(planes.moments2 + row * planes.moment_stride, on);
    }
    const vfloat3 off = mean_step(raw, make_vec(gradients[0], gradients[1], gradients[2]), m, v, state);
    p[0] -= off.x; p[1] -= off.y; p[2] -= off.z;
#pragma unroll
    for (int row = 0; row < BASE_ROWS; ++row) {
        if (row >= ROW_LOG_SCALE) adam_update(p[row], m[row], v[row], gradients[row], state.lr[learning_rate_of(row)], state);
        if (row >= ROW_LOG_SCALE) store_own(planes.params + row * planes.stride, p[row], on);
        store_own(planes.moments1 + row * planes.moment_stride, m[row], on);
        store_own(planes.moments2 + row * planes.moment_stride, v[row], on);
    }
    vfloat3 mean = make_vec(p[0], p[1], p[2]);
    if (noise.scale > 0.0f) mean = add(mean, noise_step(noise, state, p, splat, on));
    store_vec(planes.params, planes.stride, mean, on);
}

// Adam step of a view-dependent coefficient of each splat's colour in `on`. Lanes of `sectors` (sectors_of(on)) store what they have read: a
// store with gaps costs a transfer per gap where the planes are in host memory. params, moments1: of its first channel. second: the
// second moments of the constant colour after its step. The mean of Y_k^2 over the coefficients of all degrees is Y_0^2 (Unsoeld's
// theorem): they are what the second moments of the others would be in the mean.
__device__ __forceinline__ void step_coefficient(
    float* __restrict__ params /* [3, stride] */, float* __restrict__ moments1 /* [3, moment_stride] */, vfloat3 second, vfloat3 g,
    size_t stride, size_t moment_stride, const IterState& state, vbool on, vbool sectors)
{
    const vfloat gradients[3] = {g.x, g.y, g.z}, v[3] = {second.x, second.y, second.z};
    vfloat p[3], m[3];
#pragma unroll
    for (int c = 0; c < 3; ++c) {       // all loads before the first store
        p[c] = load_own(params + c * stride, sectors);
        m[c] = load_own(moments1 + c * moment_stride, sectors);
    }
#pragma unroll
    for (int c = 0; c < 3; ++c) {
        vfloat new_m = m[c];
        const vfloat off = momentum_step(new_m, v[c], gradients[c], state.lr[LR_SHN], state);
        store_own(params + c * stride, select(on, p[c] - off, p[c]), sectors);
        store_own(moments1 + c * moment_stride, select(on, new_m, m[c]), sectors);
    }
}
