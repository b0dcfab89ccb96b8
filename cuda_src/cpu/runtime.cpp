// Runtime library of the CPU backend: one pool of OS threads for all kernel libraries. It does not use the C++ library, so that it links
// on systems without one.
#include "runtime.h"

#ifdef _WIN32
#include "os_windows.h"
#else
#include "os_posix.h"
#endif

#include <cstdlib>
#include <new>

namespace {

using namespace splat_cpu;

// Memory for at least `num_fibers` fibers of this OS thread; nullptr if the system has none.
void* arena(int num_fibers)
{
    static thread_local char* memory = nullptr;
    static thread_local int prepared = 0;
    if (prepared < num_fibers) {
        memory = grow_arena(memory, prepared, num_fibers);
        prepared = memory ? num_fibers : 0;
    }
    return memory;
}

// A launch. OS threads take chunks of its blocks until all are taken.
struct Job {
    BlockRange range;
    void* launch;
    long num_blocks, chunk;
    int fibers_per_block;
    long next;

    void work(void* const memory)
    {
        for (long begin; (begin = __atomic_fetch_add(&next, chunk, __ATOMIC_RELAXED)) < num_blocks;)
            range(launch, memory, begin, begin + chunk < num_blocks ? begin + chunk : num_blocks);
    }
};

// OS threads that wait for work. Jobs do not overlap: a second caller waits for the first. The pool is never destroyed, because its
// threads outlive static destructors.
class Pool {
public:
    // Returns false if this thread gets no memory for fibers.
    bool run(Job& job, int num_threads)
    {
        void* const memory = arena(job.fibers_per_block);
        if (!memory) return false;
        if (process_ != process_id()) new (this) Pool;   // a child process has no workers after fork()
        caller_.lock();
        const int num_workers = grow(num_threads - 1);
        job_ = &job;
        pending_ = num_workers;
        Worker* worker = newest_;
        for (int i = 0; i < num_workers; ++i, worker = worker->older) worker->start.post();
        job.work(memory);
        if (num_workers) done_.wait();
        caller_.unlock();
        return true;
    }

private:
    struct Worker { Pool* pool; Worker* older; Semaphore start; };

    // Returns the number of workers to use: `wanted`, or fewer if the system starts no more threads.
    int grow(int wanted)
    {
        for (; num_workers_ < wanted; ++num_workers_) {
            Worker* const worker = new (malloc(sizeof(Worker))) Worker{this, newest_, {}};
            if (!start_thread<&Pool::serve>(worker)) { free(worker); return num_workers_; }
            newest_ = worker;
        }
        return wanted;
    }

    static void serve(void* argument)
    {
        Worker& worker = *(Worker*)argument;
        for (Pool& pool = *worker.pool;;) {
            worker.start.wait();
            if (void* const memory = arena(pool.job_->fibers_per_block)) pool.job_->work(memory);  // otherwise other threads do it
            if (__atomic_sub_fetch(&pool.pending_, 1, __ATOMIC_ACQ_REL) == 0) pool.done_.post();
        }
    }

    Mutex caller_;
    Semaphore done_;
    Job* job_ = nullptr;
    Worker* newest_ = nullptr;
    int num_workers_ = 0, pending_ = 0;
    long process_ = process_id();
};

Pool pool;

}  // namespace

#ifdef _WIN32
// Entry point of the library. Nothing else runs constructors.
extern "C" BOOL WINAPI DllMain(HINSTANCE, DWORD reason, LPVOID)
{
    if (reason == DLL_PROCESS_ATTACH) new (&pool) Pool;
    return TRUE;
}
#endif

SPLAT_CPU_API bool splat_run_blocks(
    BlockRange range, void* launch, long num_blocks, int fibers_per_block, int num_threads)
{
    if (num_threads > num_blocks) num_threads = (int)num_blocks;
    long chunk = num_blocks / (num_threads * 16L + 1);           // small chunks balance better, large ones cause less contention
    chunk = chunk < 1 ? 1 : chunk > 64 ? 64 : chunk;
    Job job{range, launch, num_blocks, chunk, fibers_per_block, 0};
    return pool.run(job, num_threads);
}

SPLAT_CPU_API const char* splat_simd()
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
