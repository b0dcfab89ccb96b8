// CUDA's atomics. Fibers of one OS thread do not switch inside an atomic, so a launch on one OS thread adds floats without atomics.
#pragma once
#include "fibers.h"

namespace splat_cpu {

template <class T, class F> SPLAT_CPU_INLINE T update(T* address, F f)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    Bits* const bits = (Bits*)address;
    Bits old_bits = __atomic_load_n(bits, __ATOMIC_RELAXED);
    for (;;) {
        T old;
        memcpy(&old, &old_bits, sizeof(T));
        const T replacement = f(old);
        Bits new_bits;
        memcpy(&new_bits, &replacement, sizeof(T));
        if (__atomic_compare_exchange_n(bits, &old_bits, new_bits, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return old;
    }
}

template <class T> SPLAT_CPU_INLINE T add_float(T* address, T value)
{
    if (Worker::self()->concurrent) return update(address, [=](T old) { return old + value; });
    const T old = *address;
    *address = old + value;
    return old;
}

// dst[k] += v[k], each atomically. If other OS threads may interfere, adds two neighbours per compare-and-swap.
template <int N> SPLAT_CPU_INLINE void add_row(float* dst, const float* v)
{
    if (!Worker::self()->concurrent) {
        for (int k = 0; k < N; ++k) dst[k] += v[k];
        return;
    }
    struct Pair { float a, b; };
    int k = 0;
    if ((uintptr_t)dst % sizeof(Pair) == 0)
        for (; k + 1 < N; k += 2) update((Pair*)(dst + k), [&](Pair old) { return Pair{old.a + v[k], old.b + v[k + 1]}; });
    for (; k < N; ++k) update(dst + k, [&](float old) { return old + v[k]; });
}

// Parameter type that is not deduced from the argument: the address determines T.
template <class T> struct as_is { using type = T; };
template <class T> using value_of = typename as_is<T>::type;

}  // namespace splat_cpu

inline float atomicAdd(float* p, float v) { return splat_cpu::add_float(p, v); }
inline double atomicAdd(double* p, double v) { return splat_cpu::add_float(p, v); }
inline int atomicAdd(int* p, int v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
inline unsigned atomicAdd(unsigned* p, unsigned v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
inline unsigned long long atomicAdd(unsigned long long* p, unsigned long long v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
template <class T> T atomicSub(T* p, splat_cpu::value_of<T> v) { return __atomic_fetch_sub(p, v, __ATOMIC_RELAXED); }
template <class T> T atomicMin(T* p, splat_cpu::value_of<T> v) { return splat_cpu::update(p, [=](T old) { return v < old ? v : old; }); }
template <class T> T atomicMax(T* p, splat_cpu::value_of<T> v) { return splat_cpu::update(p, [=](T old) { return old < v ? v : old; }); }
template <class T> T atomicOr(T* p, splat_cpu::value_of<T> v) { return __atomic_fetch_or(p, v, __ATOMIC_RELAXED); }
template <class T> T atomicAnd(T* p, splat_cpu::value_of<T> v) { return __atomic_fetch_and(p, v, __ATOMIC_RELAXED); }
template <class T> T atomicExch(T* p, splat_cpu::value_of<T> v) { return splat_cpu::update(p, [=](T) { return v; }); }
template <class T> T atomicCAS(T* p, splat_cpu::value_of<T> expected, splat_cpu::value_of<T> v)
{
    __atomic_compare_exchange_n(p, &expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
}
