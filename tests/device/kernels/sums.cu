// Sums several values at once over the lanes of warps.
#include "lanes.cuh"

// sums[k] += sum over all lanes of the warp of v^(k+1), for k < NUM.
template <int NUM> __device__ __forceinline__ void add_powers(float* sums, vfloat v)
{
    vfloat powers[NUM];
    powers[0] = v;
    for (int k = 1; k < NUM; ++k) powers[k] = powers[k - 1] * v;
    warp_add(sums, powers);
}

// sums[k] += sum over all lanes of all warps of x^(k+1), and a block's sum through shared memory.
extern "C" __global__ void lane_sums(
    const float* x /* [blocks, W, 32] */, float* sums /* [num] */, float* block_sums /* [blocks] */, int num /* see below */)
{
    __shared__ float warp_sums[32];
    const vfloat v = load_row(x + 32 * (blockIdx.x * blockDim.y + threadIdx.y), true);
    switch (num) {
        case 1: add_powers<1>(sums, v); break;
        case 2: add_powers<2>(sums, v); break;
        case 3: add_powers<3>(sums, v); break;
        case 9: add_powers<9>(sums, v); break;
        case 11: add_powers<11>(sums, v); break;
        case 17: add_powers<17>(sums, v); break;
        case 32: add_powers<32>(sums, v); break;
    }
    const float sum = warp_sum(v);
    if (leader()) warp_sums[threadIdx.y] = sum;
    __syncthreads();
    BLOCK_FOR(i, 1) {
        float total = 0.0f;
        for (int w = 0; w < (int)blockDim.y; ++w) total += warp_sums[w];
        block_sums[blockIdx.x] = total;
    }
}
