// Tells AddressSanitizer about fiber switches. Empty functions in ordinary builds.
#pragma once
#include "runtime.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace splat_cpu {

#if defined(__SANITIZE_ADDRESS__)
struct StackNotes {
    void* fake[MAX_THREADS + 1];            // the sanitizer's own stack of each fiber; the last one is the OS thread's
    char* low[MAX_THREADS + 1];
    size_t size[MAX_THREADS + 1];
    bool os_thread_known;

    void fresh(int fiber, char* base)       // an earlier fiber left red zones on this stack
    {
        fake[fiber] = nullptr; low[fiber] = base; size[fiber] = STACK;
        __asan_unpoison_memory_region(base + PAGE, STACK - PAGE);
    }
    void leave(int from, int to, bool ends) { __sanitizer_start_switch_fiber(ends ? nullptr : &fake[from], low[to], size[to]); }
    void back(int fiber) { __sanitizer_finish_switch_fiber(fake[fiber], nullptr, nullptr); }
    void begin()                            // called first on a new stack; the first call of all records the OS thread's stack
    {
        const void* base; size_t bytes;
        __sanitizer_finish_switch_fiber(nullptr, &base, &bytes);
        if (os_thread_known) return;
        os_thread_known = true; low[MAX_THREADS] = (char*)base; size[MAX_THREADS] = bytes;
    }
    void moved(int from, int to) { low[to] = low[from]; }
};
#else
struct StackNotes {
    void fresh(int, char*) {}
    void leave(int, int, bool) {}
    void back(int) {}
    void begin() {}
    void moved(int, int) {}
};
#endif

}  // namespace splat_cpu
