// Loads and stores of lanes_cpu.h. A sanitizer cannot see the addresses of gathers and masked instructions. So sanitizer builds, and
// processors without these instructions, go lane by lane.
#pragma once

namespace splat_cpu {

// Vector type of a U in registers: vfloat for float, vint for anything else.
template <class U> struct held { using Vector = Ints; using type = vint; };
template <> struct held<float> { using Vector = Floats; using type = vfloat; };
template <class U> using Held = typename held<std::remove_const_t<U>>::type;
template <class U> using HeldVector = typename held<std::remove_const_t<U>>::Vector;

#if defined(SPLAT_CPU_AVX512) && !defined(__SANITIZE_ADDRESS__)
#define SPLAT_CPU_MASKED_MEMORY
SPLAT_CPU_INLINE Ints gather(const void* p, Ints at, Mask m)
{
    return (Ints)_mm512_mask_i32gather_epi32(__m512i{}, m.bits, (__m512i)at, p, 4);
}
SPLAT_CPU_INLINE void scatter(void* p, Ints at, Ints v, Mask m) { _mm512_mask_i32scatter_epi32(p, m.bits, (__m512i)at, (__m512i)v, 4); }
SPLAT_CPU_INLINE Ints load_masked(const void* p, Mask m) { return (Ints)_mm512_maskz_loadu_epi32(m.bits, p); }
SPLAT_CPU_INLINE void store_masked(void* p, Ints v, Mask m) { _mm512_mask_storeu_epi32(p, m.bits, (__m512i)v); }
#elif defined(SPLAT_CPU_AVX2) && !defined(__SANITIZE_ADDRESS__)
#define SPLAT_CPU_MASKED_MEMORY
SPLAT_CPU_INLINE Ints gather(const void* p, Ints at, Mask m)
{
    return (Ints)_mm256_mask_i32gather_epi32(__m256i{}, (const int*)p, (__m256i)at, (__m256i)m, 4);
}
SPLAT_CPU_INLINE void scatter(void* p, Ints at, Ints v, Mask m)
{
    for (unsigned left = bits_of(m); left; left &= left - 1) { const int lane = __builtin_ctz(left); ((int*)p)[at[lane]] = v[lane]; }
}
SPLAT_CPU_INLINE Ints load_masked(const void* p, Mask m) { return (Ints)_mm256_maskload_epi32((const int*)p, (__m256i)m); }
SPLAT_CPU_INLINE void store_masked(void* p, Ints v, Mask m) { _mm256_maskstore_epi32((int*)p, (__m256i)m, (__m256i)v); }
#endif

#ifdef SPLAT_CPU_MASKED_MEMORY
// Gathers bytes through the aligned words that contain them, so it touches no page without such a byte.
SPLAT_CPU_INLINE Ints gather_bytes(const unsigned char* p, Ints at, Mask m)
{
    const int beyond = (int)((uintptr_t)p & 3);
    at += beyond;
    return gather(p - beyond, at >> 2, m) >> (at & 3) * 8 & 255;
}
#endif

// Calls f(k, j) for lane j of part k if m holds there.
template <class F> SPLAT_CPU_INLINE void for_lanes(vbool m, F f)
{
    for (int k = 0; k < PARTS; ++k)
        for (unsigned left = bits_of(m.part[k]); left; left &= left - 1) f(k, __builtin_ctz(left));
}

// Each lane reads p[its index] if m holds; 0 otherwise.
template <class U> SPLAT_CPU_INLINE Held<U> load(const U* p, vint index, vbool m)
{
#ifdef SPLAT_CPU_MASKED_MEMORY
    if constexpr (sizeof(U) == 4) return SPLAT_CPU_EACH(HeldVector<U>, (HeldVector<U>)gather(p, index.part[i], m.part[i]));
    if constexpr (std::is_same_v<U, unsigned char>) return SPLAT_CPU_EACH(Ints, gather_bytes(p, index.part[i], m.part[i]));
#endif
    Held<U> result = 0;
    for_lanes(m, [&](int k, int lane) { result.part[k][lane] = p[index.part[k][lane]]; });
    return result;
}

// Each lane writes v to p[its index] if m holds.
template <class U> SPLAT_CPU_INLINE void store(U* p, vint index, Held<U> v, vbool m)
{
#ifdef SPLAT_CPU_MASKED_MEMORY
    if constexpr (sizeof(U) == 4) {
        for (int k = 0; k < PARTS; ++k) scatter(p, index.part[k], (Ints)v.part[k], m.part[k]);
        return;
    }
#endif
    for_lanes(m, [&](int k, int lane) { p[index.part[k][lane]] = (U)v.part[k][lane]; });
}

// Lane i reads p[i] if m holds; 0 otherwise.
template <class U> SPLAT_CPU_INLINE Held<U> load_row(const U* p, vbool m)
{
#ifdef SPLAT_CPU_MASKED_MEMORY
    if constexpr (sizeof(U) == 4) return SPLAT_CPU_EACH(HeldVector<U>, (HeldVector<U>)load_masked(p + i * WIDTH, m.part[i]));
#endif
    Held<U> result = 0;
    for_lanes(m, [&](int k, int lane) { result.part[k][lane] = p[k * WIDTH + lane]; });
    return result;
}

// Lane i writes v to p[i] if m holds.
template <class U> SPLAT_CPU_INLINE void store_row(U* p, Held<U> v, vbool m)
{
#ifdef SPLAT_CPU_MASKED_MEMORY
    if constexpr (sizeof(U) == 4) {
        for (int k = 0; k < PARTS; ++k) store_masked(p + k * WIDTH, (Ints)v.part[k], m.part[k]);
        return;
    }
#endif
    for_lanes(m, [&](int k, int lane) { p[k * WIDTH + lane] = (U)v.part[k][lane]; });
}

// Each lane reads the float4 p[its index] if m holds; 0 otherwise.
SPLAT_CPU_INLINE vfloat4 load4(const float4* p, vint index, vbool m)
{
    const float* f = &p->x;
    index = index * 4;
    return {load(f, index, m), load(f + 1, index, m), load(f + 2, index, m), load(f + 3, index, m)};
}

// The same for float2.
SPLAT_CPU_INLINE void load2(const float2* p, vint index, vfloat& x, vfloat& y, vbool m)
{
    x = load(&p->x, index * 2, m);
    y = load(&p->y, index * 2, m);
}

// Lane i reads the float4 p[i] if m holds; 0 otherwise.
SPLAT_CPU_INLINE vfloat4 load4_row(const float4* p, vbool m)
{
    if (!all(m)) return load4(p, lane_id(), m);
    vfloat4 r;
    for (int k = 0; k < PARTS; ++k) {
        Floats v[4];
        memcpy(v, p + k * WIDTH, sizeof v);
        const Floats xz0 = every_other<0>(v[0], v[1]), xz1 = every_other<0>(v[2], v[3]);
        const Floats yw0 = every_other<1>(v[0], v[1]), yw1 = every_other<1>(v[2], v[3]);
        r.x.part[k] = every_other<0>(xz0, xz1); r.z.part[k] = every_other<1>(xz0, xz1);
        r.y.part[k] = every_other<0>(yw0, yw1); r.w.part[k] = every_other<1>(yw0, yw1);
    }
    return r;
}

// p is the address of lane 0's element. The element of lane i is at a distance of i * stride.
template <class U> SPLAT_CPU_INLINE Held<U> load_own(const U* p, vbool m) { return load_row(p, m); }
template <class U> SPLAT_CPU_INLINE void store_own(U* p, Held<U> v, vbool m) { store_row(p, v, m); }
SPLAT_CPU_INLINE vfloat4 load4_own(const float4* p, vbool m, int stride = 1)
{
    return stride == 1 ? load4_row(p, m) : load4(p, lane_id() * stride, m);
}

SPLAT_CPU_INLINE void store4(float4* p, vint index, vfloat4 v, vbool m)
{
    float* f = &p->x;
    index = index * 4;
    store(f, index, v.x, m); store(f + 1, index, v.y, m); store(f + 2, index, v.z, m); store(f + 3, index, v.w, m);
}
SPLAT_CPU_INLINE void store4_own(float4* p, vfloat4 v, vbool m, int stride = 1) { store4(p, lane_id() * stride, v, m); }
SPLAT_CPU_INLINE void load2_own(const float2* p, vfloat& x, vfloat& y, vbool m)
{
    x = load(&p->x, lane_id() * 2, m);
    y = load(&p->y, lane_id() * 2, m);
}
SPLAT_CPU_INLINE void store2_own(float2* p, vfloat x, vfloat y, vbool m)
{
    store(&p->x, lane_id() * 2, x, m);
    store(&p->y, lane_id() * 2, y, m);
}

// p[index] = high << 32 | low in each lane in which m holds.
SPLAT_CPU_INLINE void store_pair(unsigned long long* p, vint index, vint low, vint high, vbool m)
{
    for_lanes(m, [&](int k, int lane) {
        p[index.part[k][lane]] = (unsigned long long)(unsigned)high.part[k][lane] << 32 | (unsigned)low.part[k][lane];
    });
}

// p[index] += v in each lane in which m holds; returns the old value.
SPLAT_CPU_INLINE vint atomic_add(unsigned* p, vint index, int v, vbool m)
{
    vint before = 0;
    for_lanes(m, [&](int k, int lane) { before.part[k][lane] = (int)atomicAdd(p + index.part[k][lane], (unsigned)v); });
    return before;
}

// Calls f(i, v) in each lane in which m holds.
template <class F> SPLAT_CPU_INLINE void for_each(vint i, vfloat v, vbool m, F f)
{
    for_lanes(m, [&](int k, int lane) { f(i.part[k][lane], v.part[k][lane]); });
}

// *counter += number of lanes in which m holds.
SPLAT_CPU_INLINE void add_count(unsigned* counter, vbool m)
{
    if (const unsigned lanes = ballot(m)) atomicAdd(counter, (unsigned)__builtin_popcount(lanes));
}

// The same, and gives each of these lanes a distinct index, counting from the old value of the counter.
SPLAT_CPU_INLINE vint append_index(unsigned* counter, vbool m)
{
    vint number = 0;
    if (const unsigned lanes = ballot(m)) {
        int next = (int)atomicAdd(counter, (unsigned)__builtin_popcount(lanes));
        for_lanes(m, [&](int k, int lane) { number.part[k][lane] = next++; });
    }
    return number;
}

// Adds `count` once per warp and returns the old value.
SPLAT_CPU_INLINE unsigned warp_atomic_add(unsigned* counter, unsigned count) { return atomicAdd(counter, count); }

}  // namespace splat_cpu
