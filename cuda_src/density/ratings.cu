// Criteria of density control: scores, sampling weights, masks. One thread owns one splat.
// Launched by splat_cli/density/ratings.py. The same in plain NumPy: tests/reference/density.py.
#include "common.cuh"
#include "vectors.cuh"
#include "raster/fixed.cuh"

#define LAST 3e38f                          // a key larger than that of all mean gradients

// Mean over views of the sums of blend_scores.
extern "C" __global__ void mean_scores(
    const float* __restrict__ sums,             // [capacity, 2]; with FIXED_SUMS [capacity, 4]: 64-bit integers
    int num,
    float num_views,
    float* __restrict__ means)                  // [2, num]
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num) return;
    for (int k = 0; k < 2; ++k) {
#ifdef FIXED_SUMS
        const float sum = (float)(((const long long*)sums)[2 * (size_t)i + k] / (double)SCORE_ONE);
#else
        const float sum = sums[2 * (size_t)i + k];
#endif
        means[(size_t)k * num + i] = sum / num_views;
    }
}

// Adds the sums of blend_scores over other views.
extern "C" __global__ void add_scores(
    const float* __restrict__ part,             // [num, 2]; with FIXED_SUMS [num, 4]
    int num,
    float* __restrict__ sums)                   // [capacity, 2 or 4] accumulated
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num) return;
    for (int k = 0; k < 2; ++k) {
        const size_t at = 2 * (size_t)i + k;
#ifdef FIXED_SUMS
        ((long long*)sums)[at] += ((const long long*)part)[at];
#else
        sums[at] += part[at];
#endif
    }
}

// Dead splats are too transparent to matter. The other splats may be copied; their weight is their error or their opacity. Frozen splats
// are neither dead nor copied.
extern "C" __global__ void rate_splats(
    const float* __restrict__ logit_opacities,  // [num]
    const float* __restrict__ errors,           // [num]; null: use opacities
    int num_frozen, int num,                    // frozen splats come first
    float prune_opacity,
    float* __restrict__ weights,                // [num]
    bool* __restrict__ dead,                    // [num]
    unsigned* __restrict__ totals)              // [3] zero before: number of dead splats, of positive weights, bits of the largest
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num) return;
    const float opacity = sigmoid(logit_opacities[i]);
    const bool frozen = i < num_frozen, alive = frozen || opacity > prune_opacity;
    const float weight = alive && !frozen ? fmaxf(errors ? errors[i] : opacity, 0.0f) : 0.0f;
    weights[i] = weight;
    dead[i] = !alive;
    if (!alive) atomicAdd(&totals[0], 1u);
    if (weight > 0.0f) atomicAdd(&totals[1], 1u);
    if (__float_as_uint(weight) > *(volatile unsigned*)&totals[2]) atomicMax(&totals[2], __float_as_uint(weight));
}

// Mean screen-space gradient per view since the last round.
extern "C" __global__ void rate_gradients(
    const float* __restrict__ stats,            // [2, columns] sums, number of views
    int columns, int missing,                   // number of splats at the beginning without a column
    int num_frozen, int num,
    float threshold,
    bool* __restrict__ chosen,                  // [num] mean >= threshold
    float* __restrict__ keys)                   // [num] ascending order means descending gradients; LAST if not chosen
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num) return;
    const float* own = stats + i - missing;
    const float mean = i < num_frozen ? 0.0f : own[0] / fmaxf(own[columns], 1.0f);
    const bool grows = i >= num_frozen && mean >= threshold;
    chosen[i] = grows;
    keys[i] = grows ? -mean : LAST;
}

__device__ __forceinline__ float largest_log_scale(const float* __restrict__ params /* [rows, capacity] */, size_t capacity, size_t i)
{
    const float* p = params + ROW_LOG_SCALE * capacity + i;
    return fmaxf(fmaxf(p[0], p[capacity]), p[2 * capacity]);
}

// Marks those splats index[k] whose longest axis is at most max_scale.
extern "C" __global__ void mark_small(
    const float* __restrict__ params,           // [rows, capacity]
    int capacity,
    const long long* __restrict__ index,        // [count]
    int count,
    float max_scale,                            // world units
    bool* __restrict__ small)                   // [count]
{
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < count) small[k] = expf(largest_log_scale(params, capacity, index[k])) <= max_scale;
}

// Marks splats that are too transparent or too large to keep.
extern "C" __global__ void mark_prunable(
    const float* __restrict__ params,           // [rows, capacity]
    int capacity, int num_frozen, int num,
    float min_opacity,
    float max_scale,                            // world units
    bool* __restrict__ mask)                    // [num]
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num) return;
    const bool transparent = sigmoid(params[ROW_OPACITY * (size_t)capacity + i]) < min_opacity;
    mask[i] = i >= num_frozen && (transparent || expf(largest_log_scale(params, capacity, i)) > max_scale);
}
