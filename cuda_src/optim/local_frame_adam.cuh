// Adam for positions in the local frame of a splat, with steps that grow with the splat's size. The gradient across a flat splat is many
// times the gradient along it; Adam can normalise the two separately only if each axis is a coordinate. Large splats, on plain or distant
// surfaces, have to move farther than small ones.
#pragma once
#include "optim/adam.cuh"
#include "raster/projection.cuh"

#define MAX_LR_FACTOR 5.0f          // limits the factor of the learning rate to 1/5 .. 5

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
