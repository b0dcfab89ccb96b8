// Sums NUM values at once over the lanes of warps.
#include "lanes.cuh"

// sums[k] += sum over all lanes of all warps of x^(k+1), and a block's sum through shared memory.
#ifndef NUM
#define NUM 9
#endif
extern "C" __global__ void lane_sums(const float* x /* [blocks, W, 32] */, float* sums /* [NUM] */, float* block_sums /* [blocks] */)
{
    __shared__ float warp_sums[32];
    const vfloat v = load_row(x + 32 * (blockIdx.x * blockDim.y + threadIdx.y), true);
    vfloat powers[NUM];
    powers[0] = v;
    for (int k = 1; k < NUM; ++k) powers[k] = powers[k - 1] * v;
    warp_add(sums, powers);
    const float sum = warp_sum(v);
    if (leader()) warp_sums[threadIdx.y] = sum;
    __syncthreads();
    BLOCK_FOR(i, 1) {
        float total = 0.0f;
        for (int w = 0; w < (int)blockDim.y; ++w) total += warp_sums[w];
        block_sums[blockIdx.x] = total;
    }
}
