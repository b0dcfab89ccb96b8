// System interface of the runtime on Linux: threads, semaphores, memory of fibers.
#pragma once
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime.h"

namespace splat_cpu {

class Semaphore {
public:
    Semaphore() { sem_init(&semaphore_, 0, 0); }
    void post() { sem_post(&semaphore_); }
    void wait() { while (sem_wait(&semaphore_)) {} }      // sem_wait fails after a signal

private:
    sem_t semaphore_;
};

class Mutex {
public:
    void lock() { pthread_mutex_lock(&mutex_); }
    void unlock() { pthread_mutex_unlock(&mutex_); }

private:
    pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

// Starts a detached thread. Returns false if the system starts no more.
template <void work(void*)> bool start_thread(void* argument)
{
    pthread_t thread;
    if (pthread_create(&thread, nullptr, [](void* a) -> void* { work(a); return nullptr; }, argument)) return false;
    pthread_detach(thread);
    return true;
}

inline long process_id() { return getpid(); }

inline char* map_memory(uintptr_t address, size_t size)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char* const p = (char*)mmap((void*)address, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    return p == MAP_FAILED ? nullptr : p;
}

// Reserves `size` bytes at a multiple of ARENA_ALIGN; pages are allocated when touched. Returns nullptr if there is no room.
inline char* reserve_aligned(size_t size)
{
    constexpr uintptr_t mask = ~(uintptr_t)(ARENA_ALIGN - 1);
    char* const anywhere = map_memory(0, size);
    if (!anywhere) return nullptr;
    munmap(anywhere, size);
    uintptr_t address = (uintptr_t)anywhere & mask;  // most of the memory below is free
    for (int i = 0; i < 64 && address; ++i, address -= ARENA_ALIGN) {
        char* const p = map_memory(address, size);
        if ((uintptr_t)p == address) return p;
        if (p) munmap(p, size);
    }
    const size_t reserve = ARENA_ALIGN + size;       // a limit of the address space may not allow this much
    char* const p = map_memory(0, reserve);
    if (!p) return nullptr;
    char* const memory = (char*)(((uintptr_t)p + ARENA_ALIGN - 1) & mask);
    if (memory > p) munmap(p, memory - p);
    munmap(memory + size, p + ARENA_ALIGN - memory);
    return memory;
}

// Replaces the arena `memory` of `had` stacks with one of `wanted` > `had` stacks. Returns nullptr if there is no room. The page at the low
// end of each stack is inaccessible, as long as the system has guards left.
inline char* grow_arena(char* memory, int had, int wanted)
{
    static int guards_left = 16384;                  // each guard splits a mapping; a process may have 65,530 mappings
    if (memory) {
        munmap(memory, arena_size(had));
        __atomic_fetch_add(&guards_left, had, __ATOMIC_RELAXED);
    }
    memory = reserve_aligned(arena_size(wanted));
    if (memory && __atomic_sub_fetch(&guards_left, wanted, __ATOMIC_RELAXED) >= 0)
        for (int i = 1; i <= wanted; ++i) mprotect(memory + i * STACK, PAGE, PROT_NONE);
    return memory;
}

}  // namespace splat_cpu
