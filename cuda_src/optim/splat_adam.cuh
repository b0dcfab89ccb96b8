// In-place Adam on the raw parameters of a warp's splats: all rows of their geometry, or one coefficient of their colour.
#pragma once
#include "common.cuh"
#include "lanes.cuh"
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

// Positions use the splat's local frame (local_frame_adam.cuh), other rows plain Adam. gradients: one per row of the parameters.
__device__ __forceinline__ void step_geometry(
    const AdamPlanes& planes, const Gaussian& raw, const vfloat (&gradients)[GEOMETRY_ROWS], const IterState& state, vint splat, vbool on)
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
        store_own(planes.params + row * planes.stride, p[row], on);
        store_moments(planes.moments, row * planes.moment_stride, m[row], v[row], seed, row, on);
    }
}

// Adam step of coefficient k of each splat's colour. planes: begin at the row of its first channel.
__device__ __forceinline__ void step_color(const AdamPlanes& planes, vfloat3 g, int k, const IterState& state, vint splat, vbool on)
{
    const size_t stride = planes.stride, next = planes.moment_stride;
    const float lr = state.lr[k == 0 ? LR_SH0 : LR_SHN];
    vfloat3 p = load_vec(planes.params, stride, on), m, v;      // all loads before the first store
    load_moments(planes.moments, 0, m.x, v.x, on);
    load_moments(planes.moments, next, m.y, v.y, on);
    load_moments(planes.moments, 2 * next, m.z, v.z, on);
    adam_update(p.x, m.x, v.x, g.x, lr, state); adam_update(p.y, m.y, v.y, g.y, lr, state); adam_update(p.z, m.z, v.z, g.z, lr, state);
    store_vec(planes.params, stride, p, on);
    const vint seed = rounding_seed<PACKED>(state, splat);
    const int row = ROW_SH0 + 3 * k;
    store_moments(planes.moments, 0, m.x, v.x, seed, row, on);
    store_moments(planes.moments, next, m.y, v.y, seed, row + 1, on);
    store_moments(planes.moments, 2 * next, m.z, v.z, seed, row + 2, on);
}
