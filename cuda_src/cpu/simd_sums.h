// Sums over the lanes of SIMD vectors, and the shuffles for them.
#pragma once
#include <utility>

#include "simd.h"

namespace splat_cpu {

// Picks lanes SOURCE[0], SOURCE[1], ... of a followed by b.
template <int... SOURCE> SPLAT_CPU_INLINE Floats shuffle(Floats a, Floats b)
{
#if defined(__clang__)
    return __builtin_shufflevector(a, b, SOURCE...);
#else
    return __builtin_shuffle(a, b, Ints{SOURCE...});
#endif
}
template <class F, size_t... I> SPLAT_CPU_INLINE Floats shuffle_by(F, Floats a, Floats b, std::index_sequence<I...>)
{
    return shuffle<F::source((int)I)...>(a, b);
}
template <class F> SPLAT_CPU_INLINE Floats shuffle_by(Floats a, Floats b)
{
    return shuffle_by(F(), a, b, std::make_index_sequence<WIDTH>());
}

// Elements FIRST, FIRST + 2, ... of a followed by b.
template <int FIRST> struct EveryOther { static constexpr int source(int i) { return 2 * i + FIRST; } };
template <int FIRST> SPLAT_CPU_INLINE Floats every_other(Floats a, Floats b) { return shuffle_by<EveryOther<FIRST>>(a, b); }

// In each run of SPAN lanes: half FROM of a's run, then half FROM of b's.
template <int SPAN, int FROM> struct Halves {
    static constexpr int source(int i)
    {
        return i % SPAN < SPAN / 2 ? i + FROM * SPAN / 2 : i - SPAN / 2 + FROM * SPAN / 2 + WIDTH;
    }
};

// Sums N <= WIDTH vectors over their lanes at once. Each step folds two vectors into one that holds the sums of both, each in half as many
// lanes, so N sums cost little more than N folds. Sum i ends in lane SumOrder::source(i).
template <int SPAN = WIDTH, int N> SPLAT_CPU_INLINE Floats sums_of(const Floats (&v)[N])
{
    if constexpr (SPAN == 1) return v[0];
    else {
        Floats folded[(N + 1) / 2];
#pragma GCC unroll 16
        for (int k = 0; k < N; k += 2) {
            const Floats a = v[k], b = k + 1 < N ? v[(k + 1) % N] : Floats{};
            folded[k / 2] = shuffle_by<Halves<SPAN, 0>>(a, b) + shuffle_by<Halves<SPAN, 1>>(a, b);
        }
        return sums_of<SPAN / 2>(folded);
    }
}
struct SumOrder {                             // lane in which sums_of leaves sum i: the bits of i reversed
    static constexpr int source(int i)
    {
        int lane = 0;
        for (int bit = 1; bit < WIDTH; bit *= 2) lane = 2 * lane + (i & bit ? 1 : 0);
        return lane;
    }
};

SPLAT_CPU_INLINE float sum_of(Floats v)
{
    const Floats one[1] = {v};
    return sums_of(one)[0];
}

}  // namespace splat_cpu
