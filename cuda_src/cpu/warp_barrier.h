// State of a warp whose lanes are fibers: a barrier over the 32 lanes, and two sets of slots for shuffles. With two sets, the next exchange
// of a fast lane does not overwrite values that a slow lane still has to read.
#pragma once
#include "types.h"

namespace splat_cpu {

struct Warp {
    unsigned generation;                                     // how often the barrier has opened, modulo 2^32
    unsigned arrived, alive, wanted;                         // masks of lanes: at the barrier, not ended, expected at the barrier
    uint64_t slots[2][32];

    uint64_t* now() { return slots[generation & 1]; }

    SPLAT_CPU_INLINE void begin(unsigned lanes) { generation = 0; arrived = 0; alive = lanes; }
    SPLAT_CPU_INLINE void open() { ++generation; arrived = 0; }

    // Whether all living lanes of `mask` have arrived.
    SPLAT_CPU_INLINE bool is_complete(unsigned mask) const { return (arrived & mask & alive) == (mask & alive); }

    // The living lane after the lane of `thread`, cyclically, as a thread of the block.
    unsigned next_thread(unsigned thread) const
    {
        const unsigned lane = thread & 31, above = lane == 31 ? 0 : alive & (~0u << (lane + 1));
        return (thread & ~31u) + (unsigned)__builtin_ctz(above ? above : alive);
    }
};

}  // namespace splat_cpu
