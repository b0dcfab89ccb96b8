// Instructions of the PTX ISA for sums by tensor cores: products of tf32 (sm_80 and later), and atomics of pairs (sm_90 and later). tf32 has
// the range of a float and 11 significant bits.
#pragma once

// to[0] += v.x, to[1] += v.y; `to` is a multiple of 8 bytes. One instruction, if the GPU and the compiler have it.
__device__ __forceinline__ void add_pair(float* to, float2 v)
{
#if __CUDA_ARCH__ >= 900 && 100 * __CUDACC_VER_MAJOR__ + __CUDACC_VER_MINOR__ >= 1201
    asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" :: "l"(__cvta_generic_to_global(to)), "f"(v.x), "f"(v.y) : "memory");
#else
    atomicAdd(to, v.x);
    atomicAdd(to + 1, v.y);
#endif
}

// Rounds a float to the nearest tf32.
__device__ __forceinline__ float round_tf32(float x)
{
    unsigned rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
    return __uint_as_float(rounded);
}

// c += a b for matrices a [16, 8] and b [8, 8] in the registers of a warp (see matrix_sums.cuh). Lower bits of a and b are ignored.
__device__ __forceinline__ void mma(float (&c)[4], float4 a, const float (&b)[2])
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(__float_as_uint(a.x)), "r"(__float_as_uint(a.y)), "r"(__float_as_uint(a.z)), "r"(__float_as_uint(a.w)),
          "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
}
