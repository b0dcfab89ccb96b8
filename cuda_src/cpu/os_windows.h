// System interface of the runtime on Windows: threads, semaphores, memory of fibers.
#pragma once
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>

#include "runtime.h"

namespace splat_cpu {

class Semaphore {
public:
    Semaphore() : handle_(CreateSemaphoreA(nullptr, 0, MAXLONG, nullptr)) {}
    void post() { ReleaseSemaphore(handle_, 1, nullptr); }
    void wait() { WaitForSingleObject(handle_, INFINITE); }

private:
    HANDLE handle_;
};

class Mutex {
public:
    void lock() { AcquireSRWLockExclusive(&lock_); }
    void unlock() { ReleaseSRWLockExclusive(&lock_); }

private:
    SRWLOCK lock_ = SRWLOCK_INIT;
};

// Starts a detached thread. Returns false if the system starts no more.
template <void work(void*)> bool start_thread(void* argument)
{
    const HANDLE thread = CreateThread(nullptr, 0, [](void* a) -> DWORD { work(a); return 0; }, argument, 0, nullptr);
    if (thread) CloseHandle(thread);
    return thread != nullptr;
}

inline long process_id() { return 0; }              // Windows has no fork()

// Grows the arena `memory` (or a new one) from `had` usable stacks to `wanted`. The page at the low end of each stack stays inaccessible.
// Returns nullptr if memory is short. Reserves address space for MAX_THREADS stacks at once, which Windows does not limit.
inline char* grow_arena(char* memory, int had, int wanted)
{
    if (!memory) {
        char* const p = (char*)VirtualAlloc(nullptr, ARENA_ALIGN + arena_size(MAX_THREADS), MEM_RESERVE, PAGE_NOACCESS);
        if (!p) return nullptr;
        memory = (char*)(((uintptr_t)p + ARENA_ALIGN - 1) & ~(uintptr_t)(ARENA_ALIGN - 1));
        if (!VirtualAlloc(memory, STACK, MEM_COMMIT, PAGE_READWRITE)) return nullptr;
    }
    for (int i = had + 1; i <= wanted; ++i)
        if (!VirtualAlloc(memory + i * STACK + PAGE, STACK - PAGE, MEM_COMMIT, PAGE_READWRITE)) return nullptr;
    return memory;
}

}  // namespace splat_cpu
