// cuda_src/raster/mma.cuh without tensor cores; fragments as in the PTX ISA.
#pragma once

__device__ inline float cut_tf32(float x) { return __uint_as_float(__float_as_uint(x) & 0xffffe000u); }

__device__ inline float round_tf32(float x) { return cut_tf32(__uint_as_float(__float_as_uint(x) + 0x1000u)); }   // to nearest, ties away from 0

__device__ inline void mma(float (&c)[4], float4 a, const float (&b)[2])
{
    const int r = (threadIdx.x & 31) >> 2, q = threadIdx.x & 3;
    const float of_a[4] = {a.x, a.y, a.z, a.w};
    for (int i = 0; i < 4; ++i)
        for (int k = 0; k < 8; ++k) {
            const float left = __shfl_sync(0xffffffffu, of_a[(i >> 1) + 2 * (k >> 2)], 4 * r + (k & 3));
            const float right = __shfl_sync(0xffffffffu, b[k >> 2], 4 * (2 * q + (i & 1)) + (k & 3));
            c[i] += cut_tf32(left) * cut_tf32(right);
        }
}
