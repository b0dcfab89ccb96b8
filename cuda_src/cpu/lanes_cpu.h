// The CPU half of lanes.cuh: a value of a warp is a struct of SIMD vectors that together hold its 32 lanes (2 of 16 with
// AVX-512, 4 of 8 with AVX, 8 of 4 otherwise). Vectors of the hardware's own width, because compilers lower wider ones badly.
#pragma once
#include <utility>

#include "simd.h"

#define SPLAT_CPU_LANES                       // launch.h: a block (32, W) has W fibers
#undef threadIdx
#define threadIdx (splat_cpu::warp_index())
#undef __syncwarp
#define __syncwarp(...) ((void)0)
#pragma GCC poison __shfl_sync __shfl_xor_sync __shfl_up_sync __shfl_down_sync __ballot_sync __any_sync __all_sync __activemask

namespace splat_cpu {

constexpr int PARTS = 32 / WIDTH;

struct WarpIndex { unsigned y, z; };          // no x: a lane is asked for by lane_id()
SPLAT_CPU_INLINE WarpIndex warp_index()
{
    const Worker* w = Worker::self();
    return {w->thread_index[w->current].y, w->thread_index[w->current].z};
}

// A struct R of parts f(0), f(1), ...; written out, not a loop, so that the parts stay in registers.
template <class R, class F, size_t... I> SPLAT_CPU_INLINE R each(F f, std::index_sequence<I...>) { return R{{f(I)...}}; }
template <class R, class F> SPLAT_CPU_INLINE R each(F f) { return each<R>(f, std::make_index_sequence<PARTS>()); }

template <class V> struct Parts { V part[PARTS]; };

}  // namespace splat_cpu

#define SPLAT_CPU_EACH(R, expression) \
    splat_cpu::each<R>([&](size_t i) __attribute__((always_inline)) { return expression; })

struct vfloat : splat_cpu::Parts<splat_cpu::Floats> {
    vfloat() = default;
    SPLAT_CPU_INLINE vfloat(splat_cpu::Parts<splat_cpu::Floats> p) : Parts(p) {}
    SPLAT_CPU_INLINE vfloat(float x) : Parts(SPLAT_CPU_EACH(Parts, splat_cpu::broadcast(x))) {}
};
struct vint : splat_cpu::Parts<splat_cpu::Ints> {
    vint() = default;
    SPLAT_CPU_INLINE vint(splat_cpu::Parts<splat_cpu::Ints> p) : Parts(p) {}
    SPLAT_CPU_INLINE vint(int x) : Parts(SPLAT_CPU_EACH(Parts, splat_cpu::broadcast(x))) {}
};
struct vbool : splat_cpu::Parts<splat_cpu::Mask> {
    vbool() = default;
    SPLAT_CPU_INLINE vbool(splat_cpu::Parts<splat_cpu::Mask> p) : Parts(p) {}
    SPLAT_CPU_INLINE vbool(bool x) : Parts(SPLAT_CPU_EACH(Parts, splat_cpu::mask_of(x))) {}
};

namespace splat_cpu {
using FloatParts = Parts<Floats>;
using IntParts = Parts<Ints>;
using MaskParts = Parts<Mask>;
}  // namespace splat_cpu

#define SPLAT_CPU_ARITHMETIC(V, P, op)                                                                                       \
    SPLAT_CPU_INLINE V operator op(V a, V b) { return SPLAT_CPU_EACH(splat_cpu::P, a.part[i] op b.part[i]); }                \
    SPLAT_CPU_INLINE V& operator op##=(V& a, V b) { return a = a op b; }
#define SPLAT_CPU_COMPARISON(V, op)                                                                                          \
    SPLAT_CPU_INLINE vbool operator op(V a, V b)                                                                             \
    {                                                                                                                        \
        return SPLAT_CPU_EACH(splat_cpu::MaskParts, splat_cpu::to_mask(a.part[i] op b.part[i]));                             \
    }
#define SPLAT_CPU_COMPARISONS(V)                                                                                             \
    SPLAT_CPU_COMPARISON(V, <) SPLAT_CPU_COMPARISON(V, <=) SPLAT_CPU_COMPARISON(V, >)                                        \
    SPLAT_CPU_COMPARISON(V, >=) SPLAT_CPU_COMPARISON(V, ==) SPLAT_CPU_COMPARISON(V, !=)

SPLAT_CPU_ARITHMETIC(vfloat, FloatParts, +)
SPLAT_CPU_ARITHMETIC(vfloat, FloatParts, -)
SPLAT_CPU_ARITHMETIC(vfloat, FloatParts, *)
SPLAT_CPU_ARITHMETIC(vfloat, FloatParts, /)
SPLAT_CPU_COMPARISONS(vfloat)
SPLAT_CPU_INLINE vfloat operator-(vfloat a) { return SPLAT_CPU_EACH(splat_cpu::FloatParts, -a.part[i]); }

SPLAT_CPU_ARITHMETIC(vint, IntParts, +)
SPLAT_CPU_ARITHMETIC(vint, IntParts, -)
SPLAT_CPU_ARITHMETIC(vint, IntParts, *)
SPLAT_CPU_ARITHMETIC(vint, IntParts, /)
SPLAT_CPU_ARITHMETIC(vint, IntParts, %)
SPLAT_CPU_ARITHMETIC(vint, IntParts, &)
SPLAT_CPU_ARITHMETIC(vint, IntParts, |)
SPLAT_CPU_ARITHMETIC(vint, IntParts, ^)
SPLAT_CPU_ARITHMETIC(vint, IntParts, <<)
SPLAT_CPU_ARITHMETIC(vint, IntParts, >>)
SPLAT_CPU_COMPARISONS(vint)
SPLAT_CPU_INLINE vint operator-(vint a) { return SPLAT_CPU_EACH(splat_cpu::IntParts, -a.part[i]); }
SPLAT_CPU_INLINE vint operator~(vint a) { return SPLAT_CPU_EACH(splat_cpu::IntParts, ~a.part[i]); }

SPLAT_CPU_ARITHMETIC(vbool, MaskParts, &)
SPLAT_CPU_ARITHMETIC(vbool, MaskParts, |)
SPLAT_CPU_ARITHMETIC(vbool, MaskParts, ^)
SPLAT_CPU_INLINE vbool operator!(vbool a) { return SPLAT_CPU_EACH(splat_cpu::MaskParts, splat_cpu::invert(a.part[i])); }
vbool operator~(vbool) = delete;              // on the GPU ~true is -2, which is true: write !mask

SPLAT_CPU_INLINE vint lane_id() { return SPLAT_CPU_EACH(splat_cpu::IntParts, splat_cpu::counting((int)i * splat_cpu::WIDTH)); }
SPLAT_CPU_INLINE bool leader() { return true; }

SPLAT_CPU_INLINE vfloat to_float(vint a) { return SPLAT_CPU_EACH(splat_cpu::FloatParts, __builtin_convertvector(a.part[i], splat_cpu::Floats)); }
SPLAT_CPU_INLINE vint to_int(vfloat a) { return SPLAT_CPU_EACH(splat_cpu::IntParts, __builtin_convertvector(a.part[i], splat_cpu::Ints)); }

SPLAT_CPU_INLINE vfloat select(vbool m, vfloat a, vfloat b) { return SPLAT_CPU_EACH(splat_cpu::FloatParts, splat_cpu::select(m.part[i], a.part[i], b.part[i])); }
SPLAT_CPU_INLINE vint select(vbool m, vint a, vint b) { return SPLAT_CPU_EACH(splat_cpu::IntParts, splat_cpu::select(m.part[i], a.part[i], b.part[i])); }
SPLAT_CPU_INLINE vbool select(vbool m, vbool a, vbool b) { return (m & a) | (!m & b); }
SPLAT_CPU_INLINE vfloat select(vbool m, float a, float b) { return select(m, vfloat(a), vfloat(b)); }
SPLAT_CPU_INLINE vint select(vbool m, int a, int b) { return select(m, vint(a), vint(b)); }

// Of a number and NaN: vmin and vmax give b.
SPLAT_CPU_INLINE vfloat vmin(vfloat a, vfloat b) { return SPLAT_CPU_EACH(splat_cpu::FloatParts, splat_cpu::minimum(a.part[i], b.part[i])); }
SPLAT_CPU_INLINE vfloat vmax(vfloat a, vfloat b) { return SPLAT_CPU_EACH(splat_cpu::FloatParts, splat_cpu::maximum(a.part[i], b.part[i])); }
SPLAT_CPU_INLINE vint vmin(vint a, vint b) { return select(a < b, a, b); }
SPLAT_CPU_INLINE vint vmax(vint a, vint b) { return select(a > b, a, b); }
SPLAT_CPU_INLINE vfloat vabs(vfloat a) { return SPLAT_CPU_EACH(splat_cpu::FloatParts, splat_cpu::absolute(a.part[i])); }
SPLAT_CPU_INLINE vfloat vsqrt(vfloat a) { return SPLAT_CPU_EACH(splat_cpu::FloatParts, splat_cpu::square_root(a.part[i])); }
SPLAT_CPU_INLINE vfloat vrcp(vfloat a) { return 1.0f / a; }
SPLAT_CPU_INLINE vfloat vexp2(vfloat a) { return SPLAT_CPU_EACH(splat_cpu::FloatParts, splat_cpu::exp2(a.part[i])); }
SPLAT_CPU_INLINE vfloat vexp(vfloat a) { return vexp2(1.4426950408889634f * a); }

SPLAT_CPU_INLINE unsigned ballot(vbool m)
{
    unsigned bits = 0;
    for (int i = 0; i < splat_cpu::PARTS; ++i) bits |= splat_cpu::bits_of(m.part[i]) << (i * splat_cpu::WIDTH);
    return bits;
}
SPLAT_CPU_INLINE bool any(vbool m)
{
    splat_cpu::Mask merged = m.part[0];
    for (int i = 1; i < splat_cpu::PARTS; ++i) merged |= m.part[i];
    return splat_cpu::bits_of(merged) != 0;
}
SPLAT_CPU_INLINE bool all(vbool m) { return !any(!m); }
SPLAT_CPU_INLINE bool some(vbool m) { return any(m); }

namespace splat_cpu {
SPLAT_CPU_INLINE Floats merge_parts(vfloat v)
{
    Floats sum = v.part[0];
    for (int i = 1; i < PARTS; ++i) sum += v.part[i];
    return sum;
}

// dst[k] += sum over lanes of v[k] for FIRST <= k < min(FIRST + WIDTH, N), and so on.
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
}  // namespace splat_cpu

SPLAT_CPU_INLINE float warp_sum(vfloat v) { return splat_cpu::sum_of(splat_cpu::merge_parts(v)); }
template <int N> SPLAT_CPU_INLINE void warp_add(float* dst, vfloat (&v)[N])
{
    static_assert(N <= 32, "on the GPU a lane ends with one value");
    splat_cpu::add_sums<0>(dst, v);
}

#include "lanes_memory.h"
