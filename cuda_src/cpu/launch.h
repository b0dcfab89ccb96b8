// A kernel launch on the CPU: unpacks the arguments and distributes the blocks over OS threads.
#pragma once
#include <tuple>
#include <type_traits>
#include <utility>

#include "fibers.h"

namespace splat_cpu {

// The host packs all arguments into one buffer, each at a multiple of 8 bytes (splat_cli/device/cpu.py).
constexpr size_t slot_size(size_t bytes) { return (bytes + 7) / 8 * 8; }

template <auto kernel, class... A, size_t... I>
SPLAT_CPU_INLINE void call_with(const char* buffer, void (*)(A...), std::index_sequence<I...>)
{
    constexpr size_t sizes[] = {0, slot_size(sizeof(A))...};
    constexpr auto offset = [](const size_t* s, size_t n) { size_t sum = 0; for (size_t i = 0; i <= n; ++i) sum += s[i]; return sum; };
    std::tuple<std::remove_cv_t<A>...> values;
    (memcpy((void*)&std::get<I>(values), buffer + offset(sizes, I), sizeof(A)), ...);
    kernel(std::get<I>(values)...);
}

template <class... A> constexpr auto parameter_indices(void (*)(A...)) { return std::index_sequence_for<A...>(); }

template <auto kernel> void call_packed(const char* buffer) { call_with<kernel>(buffer, kernel, parameter_indices(kernel)); }

// Sizes of a kernel's parameters in bytes, then 0. The host compares them with the sizes that it packs.
template <class... A> const int* parameter_sizes(void (*)(A...))
{
    static const int sizes[] = {(int)sizeof(A)..., 0};
    return sizes;
}

struct Launch {
    const char* kernel;
    void (*call)(const char*);
    const char* args;
    dim3 grid, block, fibers;                // fibers: shape of the block without the lanes, if one fiber computes a warp
    bool concurrent;
};

#if !defined(__SANITIZE_ADDRESS__)
// Allocates this library's thread-local memory (__shared__) for the calling OS thread. glibc before 2.39 clobbers vector registers if
// the first access goes through a TLS descriptor (its bug 31372). The compiler does not expect that in the middle of a kernel, so the
// first access is here, where no vector is in use.
__attribute__((noinline)) inline void allocate_shared_memory()
{
    static thread_local volatile char any_variable;
    any_variable = 0;
}
#else
inline void allocate_shared_memory() {}
#endif

inline void run_range(void* job, void* arena, long begin, long end)
{
    const Launch& launch = *(const Launch*)job;
    Worker& w = *(Worker*)arena;
    allocate_shared_memory();
    w.kernel = launch.kernel; w.call = launch.call; w.args = launch.args;
    w.block_dim = launch.block; w.grid_dim = launch.grid; w.concurrent = launch.concurrent;
    w.set_shape(launch.fibers);
    const long width = launch.grid.x, height = launch.grid.y;
    for (long b = begin; b < end; ++b) {
        w.block_index = uint3{(unsigned)(b % width), (unsigned)(b / width % height), (unsigned)(b / (width * height))};
        w.run_block();
    }
}

// Returns false if memory for fibers is short.
inline bool launch(Launch& launch, RunBlocks run_blocks, int num_threads)
{
    const long num_blocks = (long)launch.grid.x * launch.grid.y * launch.grid.z;
    const long block_size = (long)launch.block.x * launch.block.y * launch.block.z;
    if (num_blocks * block_size <= 2048) num_threads = 1;      // waking another OS thread would take longer
    launch.concurrent = num_threads > 1;
    const dim3 f = launch.fibers;
    return run_blocks(run_range, &launch, num_blocks, (int)(f.x * f.y * f.z), num_threads);
}

}  // namespace splat_cpu

// In a file of lane kernels (lanes_cpu.h), one fiber computes the 32 lanes of a warp.
#ifdef SPLAT_CPU_LANES
#define SPLAT_CPU_FIBERS(block) dim3{1, (block).y, (block).z}
#else
#define SPLAT_CPU_FIBERS(block) (block)
#endif

// Entry points of kernel `name` in its library. shape: x, y, z of the grid, then of the block.
#define SPLAT_CPU_EXPORT(name)                                                                                              \
    SPLAT_CPU_API bool splat_launch_##name(                                                                                 \
        splat_cpu::RunBlocks run_blocks, const unsigned* shape, const char* args, int num_threads)                          \
    {                                                                                                                       \
        const dim3 grid{shape[0], shape[1], shape[2]}, block{shape[3], shape[4], shape[5]};                                 \
        splat_cpu::Launch launch{#name, splat_cpu::call_packed<&name>, args, grid, block, SPLAT_CPU_FIBERS(block), false};  \
        return splat_cpu::launch(launch, run_blocks, num_threads);                                                          \
    }                                                                                                                       \
    SPLAT_CPU_API const int* splat_parameters_##name()                                                                      \
    {                                                                                                                       \
        return splat_cpu::parameter_sizes(&name);                                                                           \
    }
