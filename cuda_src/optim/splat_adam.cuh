// In-place Adam on the raw parameters of a warp's splats: geometry and constant colour, or one view-dependent coefficient.
#pragma once
#include "common.cuh"
#include "lanes.cuh"
#include "optim/langevin_noise.cuh"
#include "optim/adam.cuh"
#include "optim/moments.cuh"

#define BASE_ROWS ROW_SHN           // rows of geometry and constant colour, which have moments
#define MAX_LR_FACTOR 5.0f          // limits the factor of the learning rate to 1/5 .. 5

// Parameters and moments to update. Addresses of the lane's own elements of the first plane.
struct AdamPlanes {
    float* __restrict__ params;     // [rows, stride]
    float* __restrict__ moments;    // [BASE_ROWS, moment_stride] see moments.cuh
    size_t stride, moment_stride;   // columns of a row
};

// Rows of a splat from `first` on, with their moments.
template <int N>
struct AdamRows { vfloat p[N], m[N], v[N]; };

template <int N>
__device__ __forceinline__ AdamRows<N> load_rows(const AdamPlanes& planes, int first, vbool on)
{
    AdamRows<N> rows;
#pragma unroll
    for (int k = 0; k < N; ++k) {
        rows.p[k] = load_own(planes.params + (first + k) * planes.stride, on);
        const vfloat word = load_own(planes.moments + (first + k) * planes.moment_stride, on);
        rows.m[k] = first_moment(word);
        rows.v[k] = second_moment(word);
    }
    return rows;
}

// Adam for positions in the local frame of a splat, with steps that grow with the splat's size. The gradient across a flat splat is many
// times the gradient along it; Adam can normalise the two separately only if each axis is a coordinate. Large splats, on plain or distant
// surfaces, have to move farther than small ones.
//
// Returns the step to subtract from the mean, in world units. The moments are along the splat's axes, which rotate slowly.
__device__ __forceinline__ vfloat3 mean_step(
    const Gaussian& g, vfloat3 d_mean, vfloat* moments1 /* [3] */, vfloat* moments2 /* [3] */, const IterState& state)
{
    const bool local_frame_adam = state.reference_size > 0.0f;      // if not: the world's axes, and one rate for all sizes
    vfloat lr = state.lr[LR_MEANS];
    Mat3 r;
    if (local_frame_adam) {
        const vfloat size = (g.scale.x + g.scale.y + g.scale.z) / 3.0f;
        lr *= fminf(fmaxf(sqrtf(size / state.reference_size), 1.0f / MAX_LR_FACTOR), MAX_LR_FACTOR);
        r = unit_rotation(g.quat);
        d_mean = mul_transposed(r, d_mean);
    }
    const vfloat3 step = make_vec(adam_step(moments1[0], moments2[0], d_mean.x, lr, state),
                                 adam_step(moments1[1], moments2[1], d_mean.y, lr, state),
                                 adam_step(moments1[2], moments2[2], d_mean.z, lr, state));
    if (!local_frame_adam) return step;
    return mul(r, step);
}

// Adam step of a row, unless it is a position, whose step mean_step makes.
template <int N>
__device__ __forceinline__ void step_row(
    const AdamPlanes& planes, AdamRows<N>& rows, int first, int k, vfloat gradient, const IterState& state, vint seed,
    vbool on)
{
    const int row = first + k;
    const int rate = row < ROW_QUAT ? LR_LOG_SCALES : row < ROW_OPACITY ? LR_QUATS : row < ROW_SH0 ? LR_OPACITIES : LR_SH0;
    if (row >= ROW_LOG_SCALE) {
        adam_update(rows.p[k], rows.m[k], rows.v[k], gradient, state.lr[rate], state);
        store_own(planes.params + row * planes.stride, rows.p[k], on);
    }
    store_moments(planes.moments + row * planes.moment_stride, rows.m[k], rows.v[k], seed, row, on);
}

// Positions use the splat's local frame (mean_step), other rows plain Adam; then noise moves positions. gradients: one per row
// of the parameters. raw: the splats before the step. Colours follow apart: all rows at once spill more registers.
__device__ __forceinline__ void step_base(
    const AdamPlanes& planes, const Gaussian& raw, const vfloat (&gradients)[BASE_ROWS], const Noise& noise, const IterState& state,
    vint splat, vbool on)
{
    const vint seed = rounding_seed(state, splat);
    AdamRows<ROW_SH0> rows = load_rows<ROW_SH0>(planes, 0, on);     // all loads before the first store
    const vfloat3 off = mean_step(raw, make_vec(gradients[0], gradients[1], gradients[2]), rows.m, rows.v, state);
    vfloat3 mean = sub(make_vec(rows.p[0], rows.p[1], rows.p[2]), off);
#pragma unroll
    for (int row = 0; row < ROW_SH0; ++row) step_row(planes, rows, 0, row, gradients[row], state, seed, on);
    if (noise.scale > 0.0f) mean = add(mean, noise_step(noise, state, rows.p, splat, on));
    store_vec(planes.params, planes.stride, mean, on);

    AdamRows<3> colors = load_rows<3>(planes, ROW_SH0, on);
#pragma unroll
    for (int c = 0; c < 3; ++c) step_row(planes, colors, ROW_SH0, c, gradients[ROW_SH0 + c], state, seed, on);
}

// Step of a view-dependent coefficient of the splats in `on`: Adam without a first moment, and with the second moments of the constant
// colour after its step (`second`). Y_k^2 has the mean Y_0^2 over the coefficients of a degree (Unsoeld's theorem), so these are the mean
// of what second moments of the coefficients would be.
//
// params: the lane's element of the coefficient's first channel. sectors: sectors_of(on). Other lanes of these sectors store what they
// have read, because a store with gaps costs a transfer per gap if the planes are in host memory.
__device__ __forceinline__ void step_coefficient(
    float* __restrict__ params /* [3, stride] */, vfloat3 second, vfloat3 g, size_t stride, const IterState& state, vbool on, vbool sectors)
{
    const vfloat gradients[3] = {g.x, g.y, g.z}, v[3] = {second.x, second.y, second.z};
    vfloat p[3];
#pragma unroll
    for (int c = 0; c < 3; ++c) p[c] = load_own(params + c * stride, sectors);      // all loads before the first store
#pragma unroll
    for (int c = 0; c < 3; ++c) {
        const vfloat off = normalized_step(gradients[c], v[c], state.lr[LR_SHN], state);
        store_own(params + c * stride, select(on, p[c] - off, p[c]), sectors);
    }
}
