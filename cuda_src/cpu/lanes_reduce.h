// Operations across the lanes of a warp: votes, sums, products, functions per lane. Included by lanes_cpu.h.
#pragma once

namespace splat_cpu {

SPLAT_CPU_INLINE unsigned ballot(vbool m)
{
    unsigned bits = 0;
    for (int k = 0; k < PARTS; ++k) bits |= bits_of(m.part[k]) << (k * WIDTH);
    return bits;
}
SPLAT_CPU_INLINE bool any(vbool m)
{
    Mask merged = m.part[0];
    for (int k = 1; k < PARTS; ++k) merged = merged | m.part[k];
    return bits_of(merged) != 0;
}
SPLAT_CPU_INLINE bool all(vbool m) { return !any(!m); }
SPLAT_CPU_INLINE bool some(vbool m) { return any(m); }
SPLAT_CPU_INLINE vbool sectors_of(vbool m) { return any(m); }

// Applies a scalar function to i in each lane.
template <class F> SPLAT_CPU_INLINE vint map_each(vint i, F function)
{
    vint values;
    for (int k = 0; k < PARTS; ++k)
        for (int lane = 0; lane < WIDTH; ++lane) values.part[k][lane] = function(i.part[k][lane]);
    return values;
}

// Applies a scalar test to i in each lane.
template <class F> SPLAT_CPU_INLINE vbool test_each(vint i, F test)
{
    return map_each(i, test) != 0;
}

SPLAT_CPU_INLINE Floats merge_parts(vfloat v)
{
    Floats sum = v.part[0];
    for (int k = 1; k < PARTS; ++k) sum += v.part[k];
    return sum;
}

SPLAT_CPU_INLINE float warp_sum(vfloat v) { return sum_of(merge_parts(v)); }

SPLAT_CPU_INLINE float warp_product(vfloat v)
{
    float product = 1.0f;
    for (int k = 0; k < PARTS; ++k)
        for (int lane = 0; lane < WIDTH; ++lane) product *= v.part[k][lane];
    return product;
}

SPLAT_CPU_INLINE int warp_max(vint v)
{
    int most = v.part[0][0];
    for (int k = 0; k < PARTS; ++k)
        for (int lane = 0; lane < WIDTH; ++lane) most = v.part[k][lane] > most ? v.part[k][lane] : most;
    return most;
}

// dst[k] += sum over lanes of v[k] for k >= FIRST, WIDTH values at a time.
template <int FIRST, int N> SPLAT_CPU_INLINE void add_sums(float* dst, const vfloat (&v)[N])
{
    constexpr int COUNT = N - FIRST < WIDTH ? N - FIRST : WIDTH;
    Floats merged[COUNT];
#pragma GCC unroll 16
    for (int k = 0; k < COUNT; ++k) merged[k] = merge_parts(v[FIRST + k]);
    const Floats sums = sums_of(merged), in_order = shuffle_by<SumOrder>(sums, sums);
    float row[WIDTH];
    memcpy(row, &in_order, sizeof row);
    add_row<COUNT>(dst + FIRST, row);
    if constexpr (FIRST + COUNT < N) add_sums<FIRST + COUNT>(dst, v);
}

template <int N> SPLAT_CPU_INLINE void warp_add(float* dst, vfloat (&v)[N])
{
    static_assert(N <= 32, "on the GPU a lane ends with one value");
    add_sums<0>(dst, v);
}

}  // namespace splat_cpu
