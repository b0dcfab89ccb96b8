// Threads of a block as fibers of one OS thread.
//
// A Worker runs one block after another. Each thread of the block is a fiber with its own stack. A barrier switches to the next fiber
// that has not arrived. Three things keep the overhead within a few percent of hand-written loops:
//  - the Worker is found by masking the stack address, without thread-local storage;
//  - fibers are created lazily: until a block reaches its first barrier, its threads run one after another on one stack;
//  - a fiber switches directly to the next one, without a scheduler.
// Where a GPU would hang or return garbage (threads at different barriers, a shuffle that a lane never joins), the process aborts.
#pragma once
#include <cstdio>
#include <cstdlib>

#include "context.h"
#include "runtime.h"
#include "sanitizer.h"
#include "types.h"
#include "warp_barrier.h"

#define SPLAT_CPU_UNLIKELY(x) __builtin_expect((x), 0)

namespace splat_cpu {

struct Worker {
    static constexpr int OS_THREAD = MAX_THREADS;            // its index among the stack pointers

    unsigned current;                                        // the running thread
    int num_threads, alive;
    unsigned generation;                                     // of the block's barrier
    int arrived, count[2], idle_turns;
    const char* barrier_at;                                  // file:line of the barrier at which threads wait
    bool fibers;                                             // each living thread has its own stack
    bool concurrent;                                         // other OS threads also run blocks of this launch
    uint3 block_index;
    dim3 block_dim, grid_dim;
    const char* kernel;
    void (*call)(const char*);                               // the kernel with its packed arguments
    const char* args;
    uint16_t next[MAX_THREADS], previous[MAX_THREADS];       // circular list of the fibers
    void* stack_pointer[MAX_THREADS + 1];
    uint3 thread_index[MAX_THREADS];
    Warp warps[MAX_THREADS / 32];
    StackNotes notes;

    static SPLAT_CPU_INLINE Worker* self()
    {
        return (Worker*)((uintptr_t)__builtin_frame_address(0) & ~(uintptr_t)(ARENA_ALIGN - 1));
    }

    [[noreturn, gnu::cold, gnu::noinline]] void die(const char* what, const char* at = "")
    {
        fprintf(stderr, "splat: kernel %s, block (%u, %u, %u), thread (%u, %u, %u): %s %s\n", kernel, block_index.x, block_index.y,
                block_index.z, thread_index[current].x, thread_index[current].y, thread_index[current].z, what, at);
        fflush(stderr);
        abort();
    }

    // Numbers threads with x fastest, as on the GPU.
    void set_shape(dim3 shape)
    {
        num_threads = (int)(shape.x * shape.y * shape.z);
        int i = 0;
        for (unsigned z = 0; z < shape.z; ++z)
            for (unsigned y = 0; y < shape.y; ++y)
                for (unsigned x = 0; x < shape.x; ++x) thread_index[i++] = uint3{x, y, z};
    }

    void run_block()
    {
        current = 0;
        fibers = false;
        give_stack(0, 0);
        switch_stack(OS_THREAD, 0, false);
    }

    // Waits until every living thread of the block arrives. Returns the number of threads whose predicate holds.
    __attribute__((noinline)) int barrier(bool predicate, const char* at)
    {
        if (SPLAT_CPU_UNLIKELY(!fibers)) start_fibers();
        const unsigned me = current, g = generation;
        if (arrived == 0) barrier_at = at;
        else if (SPLAT_CPU_UNLIKELY(barrier_at != at)) {
            fprintf(stderr, "splat: threads of a block wait at different barriers: %s and\n", barrier_at);
            die("__syncthreads at", at);
        }
        count[g & 1] += predicate;
        if (++arrived == alive) open_barrier();
        else
            for (idle_turns = 0; generation == g;) {
                hand_over(me, next[me]);
                if (generation == g) waiting_again(me, next[me], at);
            }
        return count[g & 1];
    }

    // Warp of the running thread; its lanes are fibers.
    SPLAT_CPU_INLINE Warp& warp()
    {
        if (SPLAT_CPU_UNLIKELY(!fibers)) start_fibers();
        return warps[current >> 5];
    }

    // Waits until the living lanes of `mask` arrive.
    __attribute__((noinline)) void warp_barrier(unsigned mask)
    {
        Warp& w = warp();
        const unsigned me = current, g = w.generation;
        w.arrived |= 1u << (me & 31);
        w.wanted = mask;
        if (w.is_complete(mask)) { open_warp(w); return; }
        for (idle_turns = 0; w.generation == g;) {
            const unsigned to = w.next_thread(me);
            if (to == me) die("a warp operation waits for a lane that never comes");
            hand_over(me, to);
            if (w.generation == g) waiting_again(me, ~0u, "a warp operation");
        }
    }

private:
    char* stack(int slot) { return (char*)this + (size_t)(slot + 1) * STACK; }

    void give_stack(int thread, int slot)
    {
        notes.fresh(thread, stack(slot));
        // Stacks at equal distances would share a few sets of the L1 cache, so each is shifted a little.
        stack_pointer[thread] = new_context(stack(slot) + STACK - 64 - (slot % 61) * 192, &Worker::enter);
    }

    SPLAT_CPU_INLINE void switch_stack(int from, int to, bool ends)
    {
        notes.leave(from, to, ends);
        splat_cpu_switch(&stack_pointer[from], stack_pointer[to]);
        notes.back(from);
    }

    // First function on a new stack. The block's first stack runs threads one after another until one waits.
    static void enter()
    {
        Worker* w = self();
        w->notes.begin();
        for (;;) {
            w->call(w->args);
            const int me = (int)w->current;
            if (w->fibers) w->end_fiber(me);
            if (me + 1 == w->num_threads) w->switch_stack(me, OS_THREAD, true);
            w->current = (unsigned)me + 1;
            w->notes.moved(me, me + 1);
        }
    }

    // Continues with another thread, or leaves the block. A thread that has ended counts as arrived at every barrier.
    void end_fiber(int me)
    {
        const int before = previous[me], after = next[me];
        next[before] = (uint16_t)after; previous[after] = (uint16_t)before;
        Warp& w = warps[me >> 5];
        w.alive &= ~(1u << (me & 31));
        if (--alive == 0) switch_stack(me, OS_THREAD, true);
        if (arrived == alive) open_barrier();
        if (w.arrived && w.is_complete(w.wanted)) open_warp(w);
        current = (unsigned)after;
        switch_stack(me, after, true);
    }

    SPLAT_CPU_INLINE void hand_over(unsigned me, unsigned to)
    {
        current = to;
        switch_stack((int)me, (int)to, false);
    }

    // First barrier of a block: threads before the current one have ended, those after it have not begun.
    __attribute__((cold, noinline)) void start_fibers()
    {
        const int first = (int)current;
        fibers = true;
        alive = num_threads - first;
        generation = 0; arrived = 0; count[0] = count[1] = 0;
        for (int t = first; t < num_threads; ++t) {
            next[t] = (uint16_t)(t + 1);
            previous[t] = (uint16_t)(t - 1);
            if (t > first) give_stack(t, t - first);
        }
        next[num_threads - 1] = (uint16_t)first;
        previous[first] = (uint16_t)(num_threads - 1);
        for (int i = first / 32; 32 * i < num_threads; ++i) {
            const int begin = first > 32 * i ? first - 32 * i : 0, end = num_threads - 32 * i;
            warps[i].begin(~0u << begin & (end >= 32 ? ~0u : (1u << end) - 1));
        }
    }

    __attribute__((cold, noinline)) void waiting_again(unsigned me, unsigned to, const char* at)
    {
        if (to == me || ++idle_turns > 8 * num_threads + 64) die("deadlock: some threads wait for others that wait elsewhere, at", at);
    }

    SPLAT_CPU_INLINE void open_barrier() { ++generation; arrived = 0; count[generation & 1] = 0; idle_turns = 0; }
    SPLAT_CPU_INLINE void open_warp(Warp& w) { w.open(); idle_turns = 0; }
};
static_assert(sizeof(Worker) <= STACK, "the Worker lies before the first stack");

}  // namespace splat_cpu
