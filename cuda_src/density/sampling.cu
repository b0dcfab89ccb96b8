// Weighted random sampling. The host draws the uniform random numbers, so that all devices find the same samples. One thread owns one
// splat, in search_samples one sample.
// Launched by splat_cli/density/ratings.py.
#include "common.cuh"
#include "vectors.cuh"

#define LAST 1e300                  // a key larger than that of any weight
#define SHARE_ONE 68719476736.0     // 2^36: the largest weight as an integer; a parallel sum of floats would depend on its order
#define SHARES 4611686018427387904.0    // 2^62: limit of the sum; with more than 2^26 splats the integers are smaller

// Weights as integers; the host computes their running sums.
extern "C" __global__ void integer_weights(
    const float* __restrict__ weights,          // [num] 0 or more
    const unsigned* __restrict__ largest,       // [1] bits of the largest weight
    int num,
    long long* __restrict__ shares)             // [num]
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const double one = fmin(SHARE_ONE, SHARES / num);
    if (i < num) shares[i] = (long long)(weights[i] / (double)fmaxf(__uint_as_float(*largest), 1e-30f) * one);
}

// A splat of opacity o with n copies keeps the opacity 1 - (1 - o)^(1 / (n + 1)), like each copy (share_opacity in refine.cu). Limits its
// share so that this stays at or above min_opacity: copies below it would not survive until the next round.
extern "C" __global__ void limit_shares(
    const float* __restrict__ logit_opacities,  // [num]
    int num,
    double share_of_copy,                       // mean share that yields one copy
    float min_opacity,
    long long* __restrict__ shares)             // [num]
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num) return;
    const double transparency = log(1.0 - (double)sigmoid(logit_opacities[i])), most = log(1.0 - (double)min_opacity);
    const double limit = fmax(transparency / most - 1.0, 0.0) * share_of_copy;
    if (shares[i] > limit) shares[i] = (long long)limit;
}

// With replacement: finds the first splat whose cumulative share exceeds the draw.
extern "C" __global__ void search_samples(
    const long long* __restrict__ cumulative,   // [num] running sums of the shares, inclusive
    int num,
    const double* __restrict__ uniforms,        // [count] in [0, 1)
    int count,
    long long* __restrict__ samples)            // [count] indices
{
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= count) return;
    const long long at = (long long)(uniforms[k] * (double)cumulative[num - 1]);
    int low = 0, high = num - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (cumulative[middle] > at) high = middle; else low = middle + 1;
    }
    samples[k] = low;
}

// Without replacement: the splats with the smallest keys are a weighted sample; weights of 0 come last (Efraimidis and Spirakis 2006:
// the largest u^(1 / weight), here as -log).
extern "C" __global__ void distinct_keys(
    const float* __restrict__ weights,          // [num]
    const double* __restrict__ uniforms,        // [num] in [0, 1)
    int num,
    double* __restrict__ keys)                  // [num]
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num) return;
    const float weight = weights[i];
    keys[i] = weight > 0.0f ? -(log(uniforms[i]) / fmaxf(weight, 1e-12f)) : LAST;
}
