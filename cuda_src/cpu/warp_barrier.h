// State of a warp whose lanes are fibers: a barrier over its 32 lanes, and two sets of slots that shuffles exchange values through (two, so
// that a fast lane's next exchange cannot overwrite what a slow lane still reads).
#pragma once
#include "types.h"

namespace splat_cpu {

struct Warp {
    unsigned generation;                                     // number of times the barrier has opened, modulo 2^32
    unsigned arrived, alive, wanted;                         // masks of lanes: at the barrier, not ended, of the barrier
    uint64_t slots[2][32];

    uint64_t* now() { return slots[generation & 1]; }

    SPLAT_CPU_INLINE void begin(unsigned lanes) { generation = 0; arrived = 0; alive = lanes; }
    SPLAT_CPU_INLINE void open() { ++generation; arrived = 0; }

    // Whether all living lanes of `mask` have arrived.
    SPLAT_CPU_INLINE bool is_complete(unsigned mask) const { return (arrived & mask & alive) == (mask & alive); }

    // The next living lane after that of a thread, cyclically, as a thread of the block.
    unsigned next_thread(unsigned thread) const
    {
        const unsigned lane = thread & 31, above = lane == 31 ? 0 : alive & (~0u << (lane + 1));
        return (thread & ~31u) + (unsigned)__builtin_ctz(above ? above : alive);
    }
};

}  // namespace splat_cpu
