// What the runtime takes from the system, on Linux: threads, semaphores, memory of fibers.
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
    void wait() { while (sem_wait(&semaphore_)) {} }      // again after a signal

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

// Starts a thread that nobody waits for; false where the system gives no more.
template <void work(void*)> bool start_thread(void* argument)
{
    pthread_t thread;
    if (pthread_create(&thread, nullptr, [](void* a) -> void* { work(a); return nullptr; }, argument)) return false;
    pthread_detach(thread);
    return true;
}

inline long process_id() { return getpid(); }

// ARENA_SIZE bytes at a multiple of ARENA_ALIGN, whose pages are taken when touched; nullptr where there is no room.
inline char* reserve_arena()
{
    const size_t reserve = ARENA_ALIGN + ARENA_SIZE;
    char* const p = (char*)mmap(nullptr, reserve, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return nullptr;
    char* const memory = (char*)(((uintptr_t)p + ARENA_ALIGN - 1) & ~(uintptr_t)(ARENA_ALIGN - 1));
    if (memory > p) munmap(p, memory - p);
    const char* const end = memory + ARENA_SIZE;
    if (p + reserve > end) munmap((void*)end, p + reserve - end);
    return memory;
}

// Makes a stack of the arena usable, and the page at its low end inaccessible while the system has guards left.
inline bool prepare_stack(char* stack)
{
    static int guards_left = 16384;                  // each splits a mapping, of which a process may have 65,530
    if (__atomic_fetch_sub(&guards_left, 1, __ATOMIC_RELAXED) > 0) mprotect(stack, PAGE, PROT_NONE);
    return true;
}

}  // namespace splat_cpu
