// Lower bound for hash_grid.cu: the same loads, stores and atomics, at addresses that take no time to compute. As there, one thread owns
// one point at one level (blockIdx.y). Entries have 2 features.

// A pseudo-random entry of the level for each point and corner.
__device__ __forceinline__ unsigned some_entry(int point, int corner, const uint4& level)
{
    const unsigned random = (point * 8u + corner + 1u) * 2654435761u;
    return level.z + __umulhi(random, level.y);
}

extern "C" __global__ void floor_forward(
    const float* __restrict__ positions,    // [3, stride]
    int stride,
    const uint4* __restrict__ levels,       // [num_levels] resolution, size, offset, hashed
    const float2* __restrict__ tables,      // [entries]
    float* __restrict__ features)           // [num_levels * 2, stride]
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= stride) return;
    const uint4 level = levels[blockIdx.y];
    float2 sum = make_float2(positions[i], positions[stride + i] + positions[2 * (size_t)stride + i]);
    for (int corner = 0; corner < 8; ++corner) {
        const float2 entry = tables[some_entry(i, corner, level)];
        sum.x += entry.x; sum.y += entry.y;
    }
    features[(size_t)(2 * blockIdx.y) * stride + i] = sum.x;
    features[(size_t)(2 * blockIdx.y + 1) * stride + i] = sum.y;
}

extern "C" __global__ void floor_backward(
    const float* __restrict__ positions,    // [3, stride]
    int stride,
    const uint4* __restrict__ levels,       // [num_levels]
    const float* __restrict__ d_features,   // [num_levels * 2, stride]
    float* __restrict__ d_tables)           // [entries, 2] accumulated
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= stride) return;
    const uint4 level = levels[blockIdx.y];
    const float x = d_features[(size_t)(2 * blockIdx.y) * stride + i] + positions[i];
    const float y = d_features[(size_t)(2 * blockIdx.y + 1) * stride + i] + positions[stride + i] + positions[2 * (size_t)stride + i];
    for (int corner = 0; corner < 8; ++corner) {
        float* entry = d_tables + 2 * (size_t)some_entry(i, corner, level);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
        asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" :: "l"(entry), "f"(x), "f"(y) : "memory");
#else
        atomicAdd(entry, x);
        atomicAdd(entry + 1, y);
#endif
    }
}
