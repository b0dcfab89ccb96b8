// Replaces the C library's start-up code on Windows, which zig would take a minute to compile: thread-local storage, and functions that
// ucrtbase.dll does not export by name.
#pragma once
#include <cstdarg>
#include <cmath>
#include <cstdint>
#include <cstdio>

// The loader gives each thread a copy of the memory between _tls_start and _tls_end; the linker finds the table of them by the name
// _tls_used (PE format, "The .tls Section").
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

// Compilers replace sinf and cosf of the same number by a call of this function; they must not do so in here.
__attribute__((weak, optnone, noinline)) void sincosf(float x, float* sine, float* cosine)
{
    *sine = sinf(x);
    *cosine = cosf(x);
}
}
