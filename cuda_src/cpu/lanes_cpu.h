// CPU version of lanes.cuh: a value of a warp is a struct of SIMD vectors that together hold its 32 lanes (2 of 16 with AVX-512, 4 of 8
// with AVX2, else 8 of 4). Vectors have the hardware's width, because compilers generate bad code for wider ones.
#pragma once
#ifdef PLAIN_NUMBERS
#error "include lanes.cuh before any header that includes numbers.cuh"
#endif
#include <utility>

#include "simd_sums.h"

#define LANE_SUMS 16                          // vfloats that a loop can keep in registers with AVX-512
#define SPLAT_CPU_LANES                       // launch.h: a block (32, W) has W fibers
#undef threadIdx
#define threadIdx (splat_cpu::warp_index())
#define __syncwarp(...) ((void)0)
#pragma GCC poison __shfl_sync __shfl_xor_sync __shfl_up_sync __shfl_down_sync __ballot_sync __any_sync __all_sync __activemask

namespace splat_cpu {

struct WarpIndex { unsigned y, z; };          // no x: use lane_id() for the lane
SPLAT_CPU_INLINE WarpIndex warp_index()
{
    const Worker* w = Worker::self();
    return {w->thread_index[w->current].y, w->thread_index[w->current].z};
}

constexpr int PARTS = 32 / WIDTH;
template <class V> struct Parts { V part[PARTS]; };

// Parts f(0), f(1), ... Expanded without a loop, so that they stay in registers.
template <class V, class F, size_t... I> SPLAT_CPU_INLINE Parts<V> each(F f, std::index_sequence<I...>) { return {{f(I)...}}; }
template <class V, class F> SPLAT_CPU_INLINE Parts<V> each(F f) { return each<V>(f, std::make_index_sequence<PARTS>()); }
#define SPLAT_CPU_EACH(V, expression) splat_cpu::each<V>([&](size_t i) __attribute__((always_inline)) { return expression; })

struct vfloat : Parts<Floats> {
    vfloat() = default;
    SPLAT_CPU_INLINE vfloat(Parts<Floats> p) : Parts(p) {}
    SPLAT_CPU_INLINE vfloat(float x) : Parts(SPLAT_CPU_EACH(Floats, broadcast(x))) {}
};
struct vint : Parts<Ints> {
    vint() = default;
    SPLAT_CPU_INLINE vint(Parts<Ints> p) : Parts(p) {}
    SPLAT_CPU_INLINE vint(int x) : Parts(SPLAT_CPU_EACH(Ints, broadcast(x))) {}
};
struct vbool : Parts<Mask> {
    vbool() = default;
    SPLAT_CPU_INLINE vbool(Parts<Mask> p) : Parts(p) {}
    SPLAT_CPU_INLINE vbool(bool x) : Parts(SPLAT_CPU_EACH(Mask, mask_from(x))) {}
};

#define SPLAT_CPU_OPERATOR(R, V, P, op) SPLAT_CPU_INLINE R operator op(V a, V b) { return SPLAT_CPU_EACH(P, a.part[i] op b.part[i]); }
#define SPLAT_CPU_ARITHMETIC(V, P, op)                                          \
    SPLAT_CPU_OPERATOR(V, V, P, op)                                             \
    SPLAT_CPU_INLINE V& operator op##=(V& a, V b) { return a = a op b; }
#define SPLAT_CPU_COMPARISONS(V)                                                                                        \
    SPLAT_CPU_INLINE vbool operator<(V a, V b) { return SPLAT_CPU_EACH(Mask, less(a.part[i], b.part[i])); }              \
    SPLAT_CPU_INLINE vbool operator<=(V a, V b) { return SPLAT_CPU_EACH(Mask, less_equal(a.part[i], b.part[i])); }       \
    SPLAT_CPU_INLINE vbool operator==(V a, V b) { return SPLAT_CPU_EACH(Mask, equal(a.part[i], b.part[i])); }            \
    SPLAT_CPU_INLINE vbool operator!=(V a, V b) { return SPLAT_CPU_EACH(Mask, not_equal(a.part[i], b.part[i])); }        \
    SPLAT_CPU_INLINE vbool operator>(V a, V b) { return b < a; }                                                         \
    SPLAT_CPU_INLINE vbool operator>=(V a, V b) { return b <= a; }

SPLAT_CPU_ARITHMETIC(vfloat, Floats, +)
SPLAT_CPU_ARITHMETIC(vfloat, Floats, -)
SPLAT_CPU_ARITHMETIC(vfloat, Floats, *)
SPLAT_CPU_ARITHMETIC(vfloat, Floats, /)
SPLAT_CPU_COMPARISONS(vfloat)
SPLAT_CPU_INLINE vfloat operator-(vfloat a) { return SPLAT_CPU_EACH(Floats, -a.part[i]); }

SPLAT_CPU_ARITHMETIC(vint, Ints, +)
SPLAT_CPU_ARITHMETIC(vint, Ints, -)
SPLAT_CPU_ARITHMETIC(vint, Ints, *)
SPLAT_CPU_ARITHMETIC(vint, Ints, /)
SPLAT_CPU_ARITHMETIC(vint, Ints, %)
SPLAT_CPU_ARITHMETIC(vint, Ints, &)
SPLAT_CPU_ARITHMETIC(vint, Ints, |)
SPLAT_CPU_ARITHMETIC(vint, Ints, ^)
SPLAT_CPU_ARITHMETIC(vint, Ints, <<)
SPLAT_CPU_ARITHMETIC(vint, Ints, >>)
SPLAT_CPU_COMPARISONS(vint)
SPLAT_CPU_INLINE vint operator-(vint a) { return SPLAT_CPU_EACH(Ints, -a.part[i]); }
SPLAT_CPU_INLINE vint operator~(vint a) { return SPLAT_CPU_EACH(Ints, ~a.part[i]); }

SPLAT_CPU_ARITHMETIC(vbool, Mask, &)
SPLAT_CPU_ARITHMETIC(vbool, Mask, |)
SPLAT_CPU_ARITHMETIC(vbool, Mask, ^)
SPLAT_CPU_INLINE vbool operator!(vbool a) { return SPLAT_CPU_EACH(Mask, ~a.part[i]); }
vbool operator~(vbool) = delete;              // on the GPU ~true is -2, which is true: write !mask

struct vfloat3 { vfloat x, y, z; };
struct vfloat4 { vfloat x, y, z, w; };

SPLAT_CPU_INLINE vint lane_id() { return SPLAT_CPU_EACH(Ints, counting((int)i * WIDTH)); }
SPLAT_CPU_INLINE bool leader() { return true; }
SPLAT_CPU_INLINE int own(int first) { return first; }

SPLAT_CPU_INLINE vfloat to_float(vint a) { return SPLAT_CPU_EACH(Floats, __builtin_convertvector(a.part[i], Floats)); }
SPLAT_CPU_INLINE vint to_int(vfloat a) { return SPLAT_CPU_EACH(Ints, __builtin_convertvector(a.part[i], Ints)); }
SPLAT_CPU_INLINE vint float_bits(vfloat a) { return SPLAT_CPU_EACH(Ints, (Ints)a.part[i]); }
SPLAT_CPU_INLINE vfloat float_from_bits(vint a) { return SPLAT_CPU_EACH(Floats, (Floats)a.part[i]); }

SPLAT_CPU_INLINE vfloat select(vbool m, vfloat a, vfloat b) { return SPLAT_CPU_EACH(Floats, choose(m.part[i], a.part[i], b.part[i])); }
SPLAT_CPU_INLINE vint select(vbool m, vint a, vint b) { return SPLAT_CPU_EACH(Ints, choose(m.part[i], a.part[i], b.part[i])); }
SPLAT_CPU_INLINE vbool select(vbool m, vbool a, vbool b) { return (m & a) | (!m & b); }
SPLAT_CPU_INLINE vfloat select(vbool m, float a, float b) { return select(m, vfloat(a), vfloat(b)); }
SPLAT_CPU_INLINE vint select(vbool m, int a, int b) { return select(m, vint(a), vint(b)); }

// If a or b is NaN, vmin and vmax return b.
SPLAT_CPU_INLINE vfloat vmin(vfloat a, vfloat b) { return SPLAT_CPU_EACH(Floats, minimum(a.part[i], b.part[i])); }
SPLAT_CPU_INLINE vfloat vmax(vfloat a, vfloat b) { return SPLAT_CPU_EACH(Floats, maximum(a.part[i], b.part[i])); }
SPLAT_CPU_INLINE vint vmin(vint a, vint b) { return select(a < b, a, b); }
SPLAT_CPU_INLINE vint vmax(vint a, vint b) { return select(a > b, a, b); }
SPLAT_CPU_INLINE vfloat vabs(vfloat a) { return SPLAT_CPU_EACH(Floats, absolute(a.part[i])); }
SPLAT_CPU_INLINE vfloat vsqrt(vfloat a) { return SPLAT_CPU_EACH(Floats, square_root(a.part[i])); }
SPLAT_CPU_INLINE vfloat vrcp(vfloat a) { return 1.0f / a; }
SPLAT_CPU_INLINE vfloat vexp2(vfloat a) { return SPLAT_CPU_EACH(Floats, exp2_fast(a.part[i])); }
SPLAT_CPU_INLINE vfloat vexp2_bounded(vfloat a) { return SPLAT_CPU_EACH(Floats, exp2_bounded(a.part[i])); }
SPLAT_CPU_INLINE vfloat vlog2(vfloat a) { return SPLAT_CPU_EACH(Floats, log2_fast(a.part[i])); }
SPLAT_CPU_INLINE vfloat vexp(vfloat a) { return vexp2(1.4426950408889634f * a); }

}  // namespace splat_cpu

#include "lanes_reduce.h"
#include "lanes_memory.h"
#include "lanes_math.h"

// Names that kernels use without an argument of these types. Argument-dependent lookup finds the others.
using splat_cpu::lane_id;
using splat_cpu::leader;
using splat_cpu::load;
using splat_cpu::load4_row;
using splat_cpu::load_own;
using splat_cpu::load_row;
using splat_cpu::own;
using splat_cpu::select;
using splat_cpu::store;
using splat_cpu::store_own;
using splat_cpu::store_row;
using splat_cpu::warp_atomic_add;
using splat_cpu::vbool;
using splat_cpu::vfloat;
using splat_cpu::vfloat3;
using splat_cpu::vfloat4;
using splat_cpu::vint;

// A loop over 0 .. n - 1 that the fibers of the block share. The body is plain scalar code.
#define BLOCK_FOR(i, n) for (int i = threadIdx.y; i < (n); i += blockDim.y)
