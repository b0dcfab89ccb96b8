// What a library takes on Windows in place of the C library's start-up code, which zig would compile for a minute: thread-local
// storage, and functions that ucrtbase.dll does not export under their names.
#pragma once
#include <cstdarg>
#include <cmath>
#include <cstdint>
#include <cstdio>

// The loader gives each thread a copy of the sections between the first two; the linker takes _tls_used for the table of them
// (PE format, "The .tls Section").
extern "C" {
unsigned _tls_index = 0;
__attribute__((section(".tls"))) char _tls_start = 0;
__attribute__((section(".tls$ZZZ"))) char _tls_end = 0;
struct TlsDirectory { const void *start, *end; unsigned* index; const void* callbacks; uint32_t num_zeros, characteristics; };
__attribute__((section(".rdata$T"), used)) extern const TlsDirectory _tls_used;
const TlsDirectory _tls_used = {&_tls_start, &_tls_end, &_tls_index, nullptr, 0, 0};

__attribute__((weak)) int fprintf(FILE* file, const char* format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int written = __stdio_common_vfprintf(1, file, format, nullptr, arguments);
    va_end(arguments);
    return written;
}

// Compilers make calls of sinf and cosf of one number a call of this: not in here.
__attribute__((weak, optnone, noinline)) void sincosf(float x, float* sine, float* cosine)
{
    *sine = sinf(x);
    *cosine = cosf(x);
}
}
