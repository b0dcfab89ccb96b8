// Adam with bias correction (Kingma and Ba 2015, algorithm 1):
//
//     m = beta1 m + (1 - beta1) g        v = beta2 v + (1 - beta2) g^2
//     param -= lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
#pragma once
#include "common.cuh"
#include "numbers.cuh"

#ifdef BATCH                        // one update for BATCH views moves as far as BATCH updates with independent gradients
__device__ constexpr double power(double base, int exponent) { return exponent == 0 ? 1.0 : base * power(base, exponent - 1); }
constexpr float BETA1 = (float)power(0.9, BATCH), BETA2 = (float)power(0.999, BATCH);
#define LR_FACTOR sqrtf((float)BATCH)
#else
#define BETA1 0.9f
#define BETA2 0.999f
#define LR_FACTOR 1.0f
#endif
#define ADAM_EPSILON 1e-15f         // as in 3DGS: gradients of single splats are tiny
#define MAX_SQUARE 1e36f            // limit of a squared gradient, which must fit in a moment

// Step to subtract from a parameter, along its gradient or the mean of its gradients. v: the second moment after the step.
__device__ __forceinline__ vfloat normalized_step(vfloat gradient, vfloat v, vfloat lr, const IterState& state)
{
    const vfloat root = v * rsqrtf(fmaxf(v, 1e-36f));        // cheap sqrt(v); 1e-36 is not denormal, which the GPU would flush to 0
    return __fdividef(LR_FACTOR * lr * gradient, root * state.inv_root_bias2 + ADAM_EPSILON);
}

// Updates both moments and returns the step to subtract from the parameter.
__device__ __forceinline__ vfloat adam_step(vfloat& moment1, vfloat& moment2, vfloat gradient, vfloat lr, const IterState& state)
{
    moment1 = BETA1 * moment1 + (1.0f - BETA1) * gradient;
    moment2 = BETA2 * moment2 + (1.0f - BETA2) * gradient * gradient;
    return normalized_step(moment1, moment2, lr * state.inv_bias1, state);
}

__device__ __forceinline__ void adam_update(
    vfloat& param, vfloat& moment1, vfloat& moment2, vfloat gradient, vfloat lr, const IterState& state)
{
    param -= adam_step(moment1, moment2, gradient, lr, state);
}

// Sets the bias corrections for `num_steps` steps; log1p and expm1, because 1 - beta^t would cancel.
__device__ __forceinline__ void set_bias(IterState& s, float num_steps)
{
    s.inv_bias1 = -1.0f / expm1f(num_steps * log1pf(BETA1 - 1.0f));
    s.inv_root_bias2 = rsqrtf(-expm1f(num_steps * log1pf(BETA2 - 1.0f)));
}

// Learning rate from `first` to `last`, linear in its logarithm; progress: from 0, more than 1 counts as 1. 0 stays 0.
__device__ __forceinline__ float log_linear(float first, float last, float progress)
{
    return first > 0.0f ? first * powf(last / first, fminf(progress, 1.0f)) : 0.0f;
}
