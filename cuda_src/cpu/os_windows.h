// What the runtime takes from the system, on Windows: threads, semaphores, memory of fibers.
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

// Starts a thread that nobody waits for; false where the system gives no more.
template <void work(void*)> bool start_thread(void* argument)
{
    const HANDLE thread = CreateThread(nullptr, 0, [](void* a) -> DWORD { work(a); return 0; }, argument, 0, nullptr);
    if (thread) CloseHandle(thread);
    return thread != nullptr;
}

inline long process_id() { return 0; }              // there is no fork()

// ARENA_SIZE bytes of address space at a multiple of ARENA_ALIGN, of which the first STACK can be used; nullptr without room.
inline char* reserve_arena()
{
    char* const p = (char*)VirtualAlloc(nullptr, ARENA_ALIGN + ARENA_SIZE, MEM_RESERVE, PAGE_NOACCESS);
    if (!p) return nullptr;
    char* const memory = (char*)(((uintptr_t)p + ARENA_ALIGN - 1) & ~(uintptr_t)(ARENA_ALIGN - 1));
    return VirtualAlloc(memory, STACK, MEM_COMMIT, PAGE_READWRITE) ? memory : nullptr;
}

// Makes a stack of the arena usable, but for the page at its low end; false where memory is short.
inline bool prepare_stack(char* stack)
{
    return VirtualAlloc(stack + PAGE, STACK - PAGE, MEM_COMMIT, PAGE_READWRITE) != nullptr;
}

}  // namespace splat_cpu
