// The runtime library of the CPU backend: one pool of OS threads for all kernel libraries.
#include "runtime.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <thread>

namespace {

using namespace splat_cpu;

// The fibers' memory of this OS thread, with guard pages under its first `num_fibers` stacks. Pages are taken when touched.
void* arena(int num_fibers)
{
    static thread_local char* memory = nullptr;
    static thread_local int guarded = 0;
    static std::atomic<int> guards_left{16384};      // each splits a mapping, of which a process may have 65,530
    if (!memory) {
        const size_t reserve = ARENA_ALIGN + ARENA_SIZE;
        char* const p = (char*)mmap(nullptr, reserve, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) {
            fprintf(stderr, "splat: cannot reserve %zu MiB of address space for an OS thread's fibers\n", reserve >> 20);
            abort();
        }
        memory = (char*)(((uintptr_t)p + ARENA_ALIGN - 1) & ~(uintptr_t)(ARENA_ALIGN - 1));
        if (memory > p) munmap(p, memory - p);
        const char* const end = memory + ARENA_SIZE;
        if (p + reserve > end) munmap((void*)end, p + reserve - end);
    }
    for (; guarded < num_fibers && guards_left.fetch_sub(1) > 0; ++guarded)
        mprotect(memory + (size_t)(guarded + 1) * STACK, PAGE, PROT_NONE);
    return memory;
}

// OS threads that wait for work. Jobs do not overlap: a second caller waits for the first.
class Pool {
public:
    void run(const std::function<void()>& work, int num_threads)
    {
        const std::lock_guard<std::mutex> one_job(caller_);
        if (num_threads > 1) {
            const std::lock_guard<std::mutex> lock(mutex_);
            grow(num_threads - 1);
            work_ = &work;
            wanted_ = pending_ = num_threads - 1;
            ++job_;
            start_.notify_all();
        }
        work();
        if (num_threads > 1) {
            std::unique_lock<std::mutex> lock(mutex_);
            done_.wait(lock, [&] { return pending_ == 0; });
        }
    }

    void forget() { num_workers_ = 0; }              // in a child process after fork() there are no workers

private:
    void grow(int num_workers)
    {
        for (; num_workers_ < num_workers; ++num_workers_)
            std::thread([this, id = num_workers_, seen = job_] { serve(id, seen); }).detach();
    }

    void serve(int id, long seen)
    {
        for (std::unique_lock<std::mutex> lock(mutex_);;) {
            start_.wait(lock, [&] { return job_ != seen; });
            seen = job_;
            if (id >= wanted_) continue;
            const std::function<void()>& work = *work_;
            lock.unlock();
            work();
            lock.lock();
            if (--pending_ == 0) done_.notify_one();
        }
    }

    std::mutex caller_, mutex_;
    std::condition_variable start_, done_;
    const std::function<void()>* work_ = nullptr;
    long job_ = 0;
    int num_workers_ = 0, wanted_ = 0, pending_ = 0;
};

Pool& pool()
{
    static Pool* const instance = [] {               // never destroyed: its threads outlive static destructors
        pthread_atfork(nullptr, nullptr, [] { pool().forget(); });
        return new Pool;
    }();
    return *instance;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void splat_run_blocks(
    BlockRange range, void* job, long num_blocks, int fibers_per_block, int num_threads)
{
    if (num_threads > num_blocks) num_threads = (int)num_blocks;
    long chunk = num_blocks / (num_threads * 16L + 1);           // small enough to even out, large enough not to contend
    chunk = chunk < 1 ? 1 : chunk > 64 ? 64 : chunk;
    std::atomic<long> next{0};
    pool().run([&] {
        void* const memory = arena(fibers_per_block);
        for (long begin; (begin = next.fetch_add(chunk, std::memory_order_relaxed)) < num_blocks;)
            range(job, memory, begin, begin + chunk < num_blocks ? begin + chunk : num_blocks);
    }, num_threads);
}

extern "C" __attribute__((visibility("default"))) const char* splat_simd()
{
#if defined(__AVX512F__) && defined(__AVX512DQ__)
    return "AVX-512";
#elif defined(__AVX2__)
    return "AVX2";
#elif defined(__x86_64__)
    return "SSE2";
#else
    return "NEON";
#endif
}
