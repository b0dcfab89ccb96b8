// Interface between a kernel library and the runtime library. The runtime owns the OS threads and the memory of fibers, once per process.
// Each launch passes its `run_blocks` to the kernel library, which links to nothing.
#pragma once
#include <cstddef>
#include <cstdint>

// Marks a function that Python looks up in a library.
#ifdef _WIN32
#include "windows_library.h"
#define SPLAT_CPU_API extern "C" __declspec(dllexport)
#else
#define SPLAT_CPU_API extern "C" __attribute__((visibility("default")))
#endif

namespace splat_cpu {

constexpr int MAX_THREADS = 1024;                    // per block, as on a GPU
constexpr size_t PAGE = 4096;
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t STACK = 1024 * 1024;                // red zones make frames larger
#else
constexpr size_t STACK = 64 * 1024;
#endif
// An arena holds a Worker (fibers.h) in its first STACK bytes, then the stacks of its fibers, each with a guard page at its low end. It
// starts at a multiple of ARENA_ALIGN, so that code on a fiber finds its Worker by masking its own stack address.
constexpr size_t arena_size(int num_fibers) { return (size_t)(num_fibers + 1) * STACK; }
constexpr size_t ARENA_ALIGN = 2 * MAX_THREADS * STACK;

using BlockRange = void (*)(void* job, void* arena, long begin, long end);       // runs blocks [begin, end) of a launch
using RunBlocks = bool (*)(BlockRange range, void* job, long num_blocks, int fibers_per_block, int num_threads);

}  // namespace splat_cpu
