// Switches from one fiber's stack to another's: saves the registers that a C++ call must preserve, exchanges the stack pointers, returns.
// It saves nothing else (no signal mask, no floating-point environment), so a switch costs a few nanoseconds.
#pragma once
#include <cstdint>
#include <cstring>

// Stores the stack pointer of the running fiber in *save_sp and continues the fiber that left `to_sp`. The function is local to a
// library's only unit, so it needs no directives that only ELF knows.
#if defined(_WIN32) && defined(__x86_64__)
#define SPLAT_CPU_SYSTEM_V __attribute__((sysv_abi))      // callers save what Windows preserves beyond these registers
#else
#define SPLAT_CPU_SYSTEM_V
#endif
extern "C" SPLAT_CPU_SYSTEM_V void splat_cpu_switch(void** save_sp, void* to_sp) asm("splat_cpu_switch")
    __attribute__((visibility("hidden")));

#if defined(__x86_64__)
asm(R"(
    .text
    .p2align 4
splat_cpu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq  %rsp, (%rdi)
    movq  %rsi, %rsp
    popq  %r15
    popq  %r14
    popq  %r13
    popq  %r12
    popq  %rbx
    popq  %rbp
    ret
)");

namespace splat_cpu {
// Prepares a stack so that the first switch to it calls `entry`. Returns its stack pointer.
inline void* new_context(char* top, void (*entry)())
{
    void** sp = (void**)((uintptr_t)top & ~(uintptr_t)63);
    *--sp = nullptr;                        // return address of entry, never used; leaves rsp % 16 == 8, as after a call
    *--sp = (void*)entry;
    for (int i = 0; i < 6; ++i) *--sp = nullptr;
    return sp;
}
}  // namespace splat_cpu

#elif defined(__aarch64__)
asm(R"(
    .text
    .p2align 4
splat_cpu_switch:
    sub  sp, sp, #160
    stp  x19, x20, [sp, #0]
    stp  x21, x22, [sp, #16]
    stp  x23, x24, [sp, #32]
    stp  x25, x26, [sp, #48]
    stp  x27, x28, [sp, #64]
    stp  x29, x30, [sp, #80]
    stp  d8,  d9,  [sp, #96]
    stp  d10, d11, [sp, #112]
    stp  d12, d13, [sp, #128]
    stp  d14, d15, [sp, #144]
    mov  x9, sp
    str  x9, [x0]
    mov  sp, x1
    ldp  x19, x20, [sp, #0]
    ldp  x21, x22, [sp, #16]
    ldp  x23, x24, [sp, #32]
    ldp  x25, x26, [sp, #48]
    ldp  x27, x28, [sp, #64]
    ldp  x29, x30, [sp, #80]
    ldp  d8,  d9,  [sp, #96]
    ldp  d10, d11, [sp, #112]
    ldp  d12, d13, [sp, #128]
    ldp  d14, d15, [sp, #144]
    add  sp, sp, #160
    ret
)");

namespace splat_cpu {
inline void* new_context(char* top, void (*entry)())
{
    char* sp = (char*)((uintptr_t)top & ~(uintptr_t)63) - 160;
    memset(sp, 0, 160);
    *(void**)(sp + 88) = (void*)entry;      // x30, the return address
    return sp;
}
}  // namespace splat_cpu

#else
#error "splat's CPU backend supports x86-64 and aarch64 only"
#endif
