// Loads and stores of lanes_cpu.h. A sanitizer does not see what gather and masked instructions touch, so that its builds, and
// processors without such instructions, go lane by lane.
#pragma once

namespace splat_cpu {

// Vector type of the values of a U in memory.
template <class U> struct vector_of { using type = vint; using Vector = Ints; };
template <> struct vector_of<float> { using type = vfloat; using Vector = Floats; };
template <class U> using vector_t = typename vector_of<std::remove_const_t<U>>::type;

template <class V, class F> SPLAT_CPU_INLINE V gather_lanes(vbool m, F value)
{
    V result = 0;
    for (int k = 0; k < PARTS; ++k)
        for (unsigned left = bits_of(m.part[k]); left; left &= left - 1) {
            const int lane = __builtin_ctz(left);
            result.part[k][lane] = value(k, lane);
        }
    return result;
}

template <class F> SPLAT_CPU_INLINE void for_lanes(vbool m, F f)
{
    for (int k = 0; k < PARTS; ++k)
        for (unsigned left = bits_of(m.part[k]); left; left &= left - 1) f(k, __builtin_ctz(left));
}

#if defined(SPLAT_CPU_AVX512) && !defined(__SANITIZE_ADDRESS__)
#define SPLAT_CPU_MASKED_MEMORY
SPLAT_CPU_INLINE Ints gather(const void* p, Ints at, Mask m) { return (Ints)_mm512_mask_i32gather_epi32(__m512i{}, (__mmask16)bits_of(m), (__m512i)at, p, 4); }
SPLAT_CPU_INLINE void scatter(void* p, Ints at, Ints v, Mask m) { _mm512_mask_i32scatter_epi32(p, (__mmask16)bits_of(m), (__m512i)at, (__m512i)v, 4); }
SPLAT_CPU_INLINE Ints load_masked(const int* p, Mask m) { return (Ints)_mm512_maskz_loadu_epi32((__mmask16)bits_of(m), p); }
SPLAT_CPU_INLINE void store_masked(int* p, Ints v, Mask m) { _mm512_mask_storeu_epi32(p, (__mmask16)bits_of(m), (__m512i)v); }
#elif defined(SPLAT_CPU_AVX2) && !defined(__SANITIZE_ADDRESS__)
#define SPLAT_CPU_MASKED_MEMORY
SPLAT_CPU_INLINE Ints gather(const void* p, Ints at, Mask m) { return (Ints)_mm256_mask_i32gather_epi32(__m256i{}, (const int*)p, (__m256i)at, (__m256i)m, 4); }
SPLAT_CPU_INLINE void scatter(void* p, Ints at, Ints v, Mask m)
{
    for (unsigned left = bits_of(m); left; left &= left - 1) { const int lane = __builtin_ctz(left); ((int*)p)[at[lane]] = v[lane]; }
}
SPLAT_CPU_INLINE Ints load_masked(const int* p, Mask m) { return (Ints)_mm256_maskload_epi32(p, (__m256i)m); }
SPLAT_CPU_INLINE void store_masked(int* p, Ints v, Mask m) { _mm256_maskstore_epi32(p, (__m256i)m, (__m256i)v); }
#endif

}  // namespace splat_cpu

// Lane i reads p[index of lane i] where m holds; 0 elsewhere.
template <class U> SPLAT_CPU_INLINE splat_cpu::vector_t<U> load(const U* p, vint index, vbool m)
{
    using V = splat_cpu::vector_t<U>;
#ifdef SPLAT_CPU_MASKED_MEMORY
    if constexpr (sizeof(U) == 4) {
        using P = splat_cpu::Parts<typename splat_cpu::vector_of<U>::Vector>;
        return V(SPLAT_CPU_EACH(P, (typename splat_cpu::vector_of<U>::Vector)splat_cpu::gather(p, index.part[i], m.part[i])));
    }
#endif
    return splat_cpu::gather_lanes<V>(m, [&](int k, int lane) { return p[index.part[k][lane]]; });
}

// Lane i writes v to p[index of lane i] where m holds.
template <class U> SPLAT_CPU_INLINE void store(U* p, vint index, splat_cpu::vector_t<U> v, vbool m)
{
#ifdef SPLAT_CPU_MASKED_MEMORY
    if constexpr (sizeof(U) == 4) {
        for (int k = 0; k < splat_cpu::PARTS; ++k) splat_cpu::scatter(p, index.part[k], (splat_cpu::Ints)v.part[k], m.part[k]);
        return;
    }
#endif
    splat_cpu::for_lanes(m, [&](int k, int lane) { p[index.part[k][lane]] = (U)v.part[k][lane]; });
}

// Lane i reads p[i] where m holds; 0 elsewhere.
template <class U> SPLAT_CPU_INLINE splat_cpu::vector_t<U> load_row(const U* p, vbool m)
{
    using V = splat_cpu::vector_t<U>;
#ifdef SPLAT_CPU_MASKED_MEMORY
    if constexpr (sizeof(U) == 4) {
        using P = splat_cpu::Parts<typename splat_cpu::vector_of<U>::Vector>;
        return V(SPLAT_CPU_EACH(P, (typename splat_cpu::vector_of<U>::Vector)splat_cpu::load_masked((const int*)p + i * splat_cpu::WIDTH, m.part[i])));
    }
#endif
    return splat_cpu::gather_lanes<V>(m, [&](int k, int lane) { return p[k * splat_cpu::WIDTH + lane]; });
}

// Lane i writes v to p[i] where m holds.
template <class U> SPLAT_CPU_INLINE void store_row(U* p, splat_cpu::vector_t<U> v, vbool m)
{
#ifdef SPLAT_CPU_MASKED_MEMORY
    if constexpr (sizeof(U) == 4) {
        for (int k = 0; k < splat_cpu::PARTS; ++k)
            splat_cpu::store_masked((int*)p + k * splat_cpu::WIDTH, (splat_cpu::Ints)v.part[k], m.part[k]);
        return;
    }
#endif
    splat_cpu::for_lanes(m, [&](int k, int lane) { p[k * splat_cpu::WIDTH + lane] = (U)v.part[k][lane]; });
}

SPLAT_CPU_INLINE int warp_max(vint v)
{
    int most = v.part[0][0];
    for (int k = 0; k < splat_cpu::PARTS; ++k)
        for (int lane = 0; lane < splat_cpu::WIDTH; ++lane) most = v.part[k][lane] > most ? v.part[k][lane] : most;
    return most;
}

// for each i in 0 .. n - 1, shared out over the block's fibers; plain scalar code inside
#define BLOCK_FOR(i, n) for (int i = threadIdx.y; i < (n); i += blockDim.y)

struct vfloat4 { vfloat x, y, z, w; };

// Lane i reads the float4 at index i of the lane where m holds; 0 elsewhere.
SPLAT_CPU_INLINE vfloat4 load4(const float4* p, vint index, vbool m)
{
    const float* f = &p->x;
    index = index * 4;
    return {load(f, index, m), load(f + 1, index, m), load(f + 2, index, m), load(f + 3, index, m)};
}

// Lane i reads the float4 p[i] where m holds; 0 elsewhere.
SPLAT_CPU_INLINE vfloat4 load4_row(const float4* p, vbool m)
{
    if (!all(m)) return load4(p, lane_id(), m);
    vfloat4 r;
    for (int k = 0; k < splat_cpu::PARTS; ++k) {
        splat_cpu::Floats v[4];
        memcpy(v, p + k * splat_cpu::WIDTH, sizeof v);
        const splat_cpu::Floats xz0 = splat_cpu::every_other<0>(v[0], v[1]), xz1 = splat_cpu::every_other<0>(v[2], v[3]);
        const splat_cpu::Floats yw0 = splat_cpu::every_other<1>(v[0], v[1]), yw1 = splat_cpu::every_other<1>(v[2], v[3]);
        r.x.part[k] = splat_cpu::every_other<0>(xz0, xz1); r.z.part[k] = splat_cpu::every_other<1>(xz0, xz1);
        r.y.part[k] = splat_cpu::every_other<0>(yw0, yw1); r.w.part[k] = splat_cpu::every_other<1>(yw0, yw1);
    }
    return r;
}
