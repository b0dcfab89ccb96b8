// CUDA's math functions for the lanes of a warp, for headers that plain and lane kernels share (numbers.cuh). Results have the same bits
// as those of the functions for a float.
#pragma once

namespace splat_cpu {

SPLAT_CPU_INLINE Floats per_lane(Floats a, float (*f)(float))
{
    for (int i = 0; i < WIDTH; ++i) a[i] = f(a[i]);
    return a;
}
SPLAT_CPU_INLINE vfloat expf(vfloat a) { return SPLAT_CPU_EACH(Floats, per_lane(a.part[i], ::expf)); }
SPLAT_CPU_INLINE vfloat logf(vfloat a) { return SPLAT_CPU_EACH(Floats, per_lane(a.part[i], ::logf)); }
SPLAT_CPU_INLINE vfloat __cosf(vfloat a) { return SPLAT_CPU_EACH(Floats, per_lane(a.part[i], ::cosf)); }
SPLAT_CPU_INLINE vfloat __sinf(vfloat a) { return SPLAT_CPU_EACH(Floats, per_lane(a.part[i], ::sinf)); }

SPLAT_CPU_INLINE Floats per_lane(Floats a, Floats b, float (*f)(float, float))
{
    for (int i = 0; i < WIDTH; ++i) a[i] = f(a[i], b[i]);
    return a;
}
SPLAT_CPU_INLINE vfloat atan2f(vfloat a, vfloat b) { return SPLAT_CPU_EACH(Floats, per_lane(a.part[i], b.part[i], ::atan2f)); }

SPLAT_CPU_INLINE vfloat sqrtf(vfloat a) { return vsqrt(a); }
SPLAT_CPU_INLINE vfloat rsqrtf(vfloat a) { return 1.0f / vsqrt(a); }
SPLAT_CPU_INLINE vfloat fabsf(vfloat a) { return vabs(a); }
SPLAT_CPU_INLINE vfloat floorf(vfloat a) { return SPLAT_CPU_EACH(Floats, round_down(a.part[i])); }
SPLAT_CPU_INLINE vfloat ceilf(vfloat a) { return -floorf(-a); }

// If one argument is NaN, the result is the other.
SPLAT_CPU_INLINE vfloat fminf(vfloat a, vfloat b) { return select(b == b, vmin(a, b), a); }
SPLAT_CPU_INLINE vfloat fmaxf(vfloat a, vfloat b) { return select(b == b, vmax(a, b), a); }

// Keeps the compiler from contracting this result with a neighbouring operation into a fused multiply-add.
SPLAT_CPU_INLINE vfloat rounded(vfloat a)
{
    for (int k = 0; k < PARTS; ++k) {
#if defined(__x86_64__)
        asm("" : "+x"(a.part[k]));
#else
        asm("" : "+w"(a.part[k]));
#endif
    }
    return a;
}
SPLAT_CPU_INLINE vfloat __fadd_rn(vfloat a, vfloat b) { return rounded(rounded(a) + rounded(b)); }
SPLAT_CPU_INLINE vfloat __fsub_rn(vfloat a, vfloat b) { return rounded(rounded(a) - rounded(b)); }
SPLAT_CPU_INLINE vfloat __fmul_rn(vfloat a, vfloat b) { return rounded(rounded(a) * rounded(b)); }
SPLAT_CPU_INLINE vfloat __fmaf_rn(vfloat a, vfloat b, vfloat c)
{
    return SPLAT_CPU_EACH(Floats, multiply_add(a.part[i], b.part[i], c.part[i]));
}
SPLAT_CPU_INLINE vfloat __fdiv_rn(vfloat a, vfloat b) { return a / b; }
SPLAT_CPU_INLINE vfloat __fdividef(vfloat a, vfloat b) { return a / b; }
SPLAT_CPU_INLINE vfloat __fsqrt_rn(vfloat a) { return vsqrt(a); }

}  // namespace splat_cpu
