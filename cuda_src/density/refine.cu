// Operations of density control: relocation, splits, resets, limits. One thread owns one splat, in split kernels one parent.
// Parameters are planes [rows, capacity]. The host copies parents to their slots: before a split, but after share_opacity.
// Launched by splat_cli/density/operations.py. The same in plain NumPy: tests/reference/density.py.
#include "common.cuh"
#include "vectors.cuh"

#define MAX_SHARES 51               // maximum number of splats that share a parent's opacity, with the parent; as in 3DGS-MCMC

__device__ __forceinline__ float logit(float opacity)
{
    const float clipped = fminf(fmaxf(opacity, 1e-6f), 1.0f - 1e-6f);
    return logf(clipped / (1.0f - clipped));
}

// Counts how often each splat is a parent.
extern "C" __global__ void count_copies(
    const long long* __restrict__ parents,  // [count] with repetition
    int count,
    int* __restrict__ copies)               // [num] zero before
{
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < count) atomicAdd(&copies[parents[k]], 1);
}

// A parent and its n - 1 copies share its opacity so that together they look like it (3DGS-MCMC, Kheradmand et al. 2024, eq. 9):
//     opacity' = 1 - (1 - opacity)^(1/n)
//     scale' = scale * opacity / sum over i = 1..n, k = 0..i-1 of C(i-1, k) (-1)^k / sqrt(k+1) opacity'^(k+1)
// Because C(0, k) + ... + C(n-1, k) = C(n, k+1), the sum is that over j = 1..n of C(n, j) (-1)^(j-1) / sqrt(j) opacity'^j.
extern "C" __global__ void share_opacity(
    const int* __restrict__ copies,         // [num] copies of each parent, not counting itself
    int capacity, int num,
    float min_opacity,                      // lower limit of opacity'
    float* __restrict__ params)             // [rows, capacity]
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num || copies[i] == 0) return;
    const size_t stride = capacity;
    const int n = min(copies[i] + 1, MAX_SHARES);
    const double opacity = sigmoid(params[ROW_OPACITY * stride + i]);
    const double shared = 1.0 - pow(1.0 - opacity, 1.0 / n);

    double sum = 0.0, term = -1.0;          // term: -C(n, j) (-shared)^j
    for (int j = 1; j <= n; ++j) {
        term *= -shared * (n - j + 1) / j;
        sum += term / sqrt((double)j);
    }
    const float factor = (float)log(fmax(opacity / fmax(sum, 1e-8), 1e-8));
    for (int k = 0; k < 3; ++k) params[(ROW_LOG_SCALE + k) * stride + i] += factor;
    params[ROW_OPACITY * stride + i] = logit(fmaxf((float)shared, min_opacity));
}

struct Geometry { float3 mean, log_scale; float4 quat; };

__device__ __forceinline__ Geometry load_geometry(const float* __restrict__ params /* [rows, stride] */, size_t stride, size_t i)
{
    const float* p = params + i;
    Geometry g;
    g.mean = make_vec(p[0], p[stride], p[2 * stride]);
    g.log_scale = make_vec(p[3 * stride], p[4 * stride], p[5 * stride]);
    g.quat.x = p[6 * stride]; g.quat.y = p[7 * stride]; g.quat.z = p[8 * stride]; g.quat.w = p[9 * stride];
    return g;
}

__device__ __forceinline__ void store_vec(float* params /* [rows, stride] */, size_t stride, size_t i, int row, float3 v)
{
    params[row * stride + i] = v.x; params[(row + 1) * stride + i] = v.y; params[(row + 2) * stride + i] = v.z;
}

// Splits a parent into two halves along its longest axis. They are half a standard deviation to either side and half as long. They
// still overlap, so their opacity is 60 % of the parent's (Deng et al. 2024, "Efficient density control", argue for deterministic splits).
extern "C" __global__ void split_long_axis(
    const long long* __restrict__ parents,  // [count] columns of the first halves
    const long long* __restrict__ slots,    // [count] columns of the second halves, which hold copies of the parents
    int count, int capacity,
    float* __restrict__ params)             // [rows, capacity]
{
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= count) return;
    const size_t stride = capacity, parent = parents[k], slot = slots[k];
    const Geometry g = load_geometry(params, stride, parent);
    const Mat3 r = unit_rotation(g.quat);
    const float3 s = g.log_scale;
    const int longest = s.x >= s.y && s.x >= s.z ? 0 : s.y >= s.z ? 1 : 2;
    const float3 one_hot = make_vec(longest == 0, longest == 1, longest == 2);
    const float3 offset = scale(0.5f * expf(fmaxf(fmaxf(s.x, s.y), s.z)), mul(r, one_hot));

    const float narrower = -0.16251893f, half = -0.53062825f;      // log 0.85, log(0.5 / 0.85)
    const float3 log_scale = add(add(s, make_vec(narrower, narrower, narrower)), scale(half, one_hot));
    const float opacity = logit(0.6f * sigmoid(params[ROW_OPACITY * stride + parent]));
    for (int side = 0; side < 2; ++side) {
        const size_t i = side ? slot : parent;
        store_vec(params, stride, i, ROW_MEAN, side ? sub(g.mean, offset) : add(g.mean, offset));
        store_vec(params, stride, i, ROW_LOG_SCALE, log_scale);
        params[ROW_OPACITY * stride + i] = opacity;
    }
}

// Splits a parent into two children, drawn from its distribution and 1.6 times smaller (Kerbl et al. 2023, sec. 5.2).
extern "C" __global__ void split_random(
    const long long* __restrict__ parents,  // [count] columns of the first children
    const long long* __restrict__ slots,    // [count] columns of the second children, which hold copies of the parents
    const float* __restrict__ normals,      // [3, 2 * count] standard normal; first children, then second ones
    int count, int capacity,
    float* __restrict__ params)             // [rows, capacity]
{
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= count) return;
    const size_t stride = capacity;
    const Geometry g = load_geometry(params, stride, parents[k]);
    const Mat3 r = unit_rotation(g.quat);
    const float3 size = make_vec(expf(g.log_scale.x), expf(g.log_scale.y), expf(g.log_scale.z));
    const float smaller = -0.47000363f;     // -log 1.6
    const float3 log_scale = add(g.log_scale, make_vec(smaller, smaller, smaller));
    for (int child = 0; child < 2; ++child) {
        const size_t i = child ? slots[k] : parents[k];
        const float* n = normals + (size_t)child * count + k;
        const float3 normal = make_vec(n[0], n[2 * (size_t)count], n[4 * (size_t)count]);
        store_vec(params, stride, i, ROW_MEAN, add(g.mean, mul(r, mul_elements(normal, size))));
        store_vec(params, stride, i, ROW_LOG_SCALE, log_scale);
    }
}

// Opacity reset (3DGS, Kerbl et al. 2023, sec. 5.2): lowers logits to at most max_logit.
extern "C" __global__ void reset_opacities(
    int num_frozen, int num,                // frozen splats come first
    float max_logit,
    float* __restrict__ logit_opacities)    // [num] changed
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < num_frozen || i >= num) return;
    if (logit_opacities[i] > max_logit) logit_opacities[i] = max_logit;     // keeps NaN, which is removed later
}

// Raises scales of trained splats to a minimum.
extern "C" __global__ void limit_scales(
    int capacity, int num_frozen, int num,
    float min_log_scale,
    float* __restrict__ params)             // [rows, capacity]
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < num_frozen || i >= num) return;
    for (int k = 0; k < 3; ++k) {
        float* log_scale = params + (ROW_LOG_SCALE + k) * (size_t)capacity + i;
        if (*log_scale < min_log_scale) *log_scale = min_log_scale;
    }
}
