// Two instructions of tensor cores (PTX ISA; sm_80 and later).
#pragma once

// Two floats rounded to bf16: `first` in the lower half.
__device__ __forceinline__ unsigned pack_bf16(float first, float second)
{
    unsigned packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(second), "f"(first));
    return packed;
}

// c += a b for matrices of bf16, a [16, 16] and b [16, 8], spread over a warp (matrix_sums.cuh).
__device__ __forceinline__ void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
