// Thread indices, barriers and warp operations, built on fibers.h.
#pragma once
#include <atomic>

#include "fibers.h"

#define SPLAT_CPU_SELF (splat_cpu::Worker::self())
#define threadIdx (SPLAT_CPU_SELF->thread_index[SPLAT_CPU_SELF->current])
#define blockIdx (SPLAT_CPU_SELF->block_index)
#define blockDim (SPLAT_CPU_SELF->block_dim)
#define gridDim (SPLAT_CPU_SELF->grid_dim)
#define warpSize 32

#define SPLAT_CPU_TEXT_(x) #x
#define SPLAT_CPU_TEXT(x) SPLAT_CPU_TEXT_(x)
#define SPLAT_CPU_HERE __FILE__ ":" SPLAT_CPU_TEXT(__LINE__)
#define __syncthreads() ((void)SPLAT_CPU_SELF->barrier(false, SPLAT_CPU_HERE))
#define __syncthreads_count(predicate) (SPLAT_CPU_SELF->barrier((predicate) != 0, SPLAT_CPU_HERE))
#define __syncthreads_or(predicate) (SPLAT_CPU_SELF->barrier((predicate) != 0, SPLAT_CPU_HERE) != 0)
#define __syncthreads_and(predicate) (SPLAT_CPU_SELF->barrier(!(predicate), SPLAT_CPU_HERE) == 0)

inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void __threadfence_block() { std::atomic_signal_fence(std::memory_order_seq_cst); }
inline void __syncwarp(unsigned mask = ~0u) { SPLAT_CPU_SELF->warp_barrier(mask); }

namespace splat_cpu {

SPLAT_CPU_INLINE int lane() { return (int)(Worker::self()->current & 31); }

// The value that lane `source` passed to this exchange.
template <class T> T exchange(unsigned mask, T value, int source)
{
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    uint64_t* slots = Worker::self()->warp().now();
    memcpy(&slots[lane()], &value, sizeof(T));
    Worker::self()->warp_barrier(mask);
    T result;
    memcpy(&result, &slots[source], sizeof(T));
    return result;
}

}  // namespace splat_cpu

template <class T> T __shfl_sync(unsigned mask, T value, int source, int width = 32)
{
    const int lane = splat_cpu::lane();
    return splat_cpu::exchange(mask, value, (lane & ~(width - 1)) | (source & (width - 1)));
}

template <class T> T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32)
{
    const int lane = splat_cpu::lane(), source = lane ^ bits;
    return splat_cpu::exchange(mask, value, source > (lane | (width - 1)) ? lane : source);
}

template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32)
{
    const int lane = splat_cpu::lane(), place = lane & (width - 1);
    return splat_cpu::exchange(mask, value, place + (int)delta < width ? lane + (int)delta : lane);
}

template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32)
{
    const int lane = splat_cpu::lane(), place = lane & (width - 1);
    return splat_cpu::exchange(mask, value, place >= (int)delta ? lane - (int)delta : lane);
}

inline unsigned __ballot_sync(unsigned mask, int predicate)
{
    splat_cpu::Warp& warp = SPLAT_CPU_SELF->warp();
    const unsigned lanes = mask & warp.alive;
    uint64_t* slots = warp.now();
    slots[splat_cpu::lane()] = predicate != 0;
    SPLAT_CPU_SELF->warp_barrier(mask);
    unsigned bits = 0;
    for (unsigned left = lanes; left; left &= left - 1) {
        const int i = __builtin_ctz(left);
        bits |= (unsigned)slots[i] << i;
    }
    return bits;
}

inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }
// A fiber runs alone until a barrier: the only lane that is certainly active is this one.
inline unsigned __activemask() { return 1u << splat_cpu::lane(); }
