// The two instructions of cuda_src/raster/mma.cuh without tensor cores, after the fragments of the PTX ISA.
#pragma once

__device__ inline unsigned bf16(float value)     // to nearest, ties to even
{
    const unsigned bits = __float_as_uint(value);
    return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

__device__ inline unsigned pack_bf16(float first, float second) { return bf16(first) | bf16(second) << 16; }

// The value at column or row k of a fragment's register that `lane` holds.
__device__ inline float fetch(unsigned reg, int lane, int k)
{
    const unsigned packed = __shfl_sync(0xffffffffu, reg, lane);
    return __uint_as_float(k & 1 ? packed & 0xffff0000u : packed << 16);
}

__device__ inline void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    const int r = (threadIdx.x & 31) >> 2, q = threadIdx.x & 3;
    for (int i = 0; i < 4; ++i)
        for (int k = 0; k < 16; ++k) {
            const int column = 2 * q + (i & 1), quad = k % 8 / 2;
            const float left = fetch(a[(i >> 1) + (k < 8 ? 0 : 2)], 4 * r + quad, k);
            c[i] += left * fetch(k < 8 ? b0 : b1, 4 * column + quad, k);
        }
}
