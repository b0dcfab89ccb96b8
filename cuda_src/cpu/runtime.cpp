// The runtime library of the CPU backend: one pool of OS threads for all kernel libraries. It needs no C++ library, so that
// it can be linked where there is none.
#include "runtime.h"

#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>

namespace {

using namespace splat_cpu;

// The fibers' memory of this OS thread, with guard pages under its first `num_fibers` stacks. Pages are taken when touched.
void* arena(int num_fibers)
{
    static thread_local char* memory = nullptr;
    static thread_local int guarded = 0;
    static int guards_left = 16384;                  // each splits a mapping, of which a process may have 65,530
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
    for (; guarded < num_fibers && __atomic_fetch_sub(&guards_left, 1, __ATOMIC_RELAXED) > 0; ++guarded)
        mprotect(memory + (size_t)(guarded + 1) * STACK, PAGE, PROT_NONE);
    return memory;
}

// A launch: its blocks, of which OS threads take chunks until none is left.
struct Job {
    BlockRange range;
    void* launch;
    long num_blocks, chunk;
    int fibers_per_block;
    long next;

    void work()
    {
        void* const memory = arena(fibers_per_block);
        for (long begin; (begin = __atomic_fetch_add(&next, chunk, __ATOMIC_RELAXED)) < num_blocks;)
            range(launch, memory, begin, begin + chunk < num_blocks ? begin + chunk : num_blocks);
    }
};

// OS threads that wait for work. Jobs do not overlap: a second caller waits for the first. The pool is never destroyed: its
// threads outlive static destructors.
class Pool {
public:
    Pool() { sem_init(&done_, 0, 0); }

    void run(Job& job, int num_threads)
    {
        if (process_ != getpid()) new (this) Pool;   // in a child process after fork() there are no workers
        pthread_mutex_lock(&caller_);
        const int num_workers = grow(num_threads - 1);
        job_ = &job;
        pending_ = num_workers;
        Worker* worker = newest_;
        for (int i = 0; i < num_workers; ++i, worker = worker->older) sem_post(&worker->start);
        job.work();
        if (num_workers) wait(done_);
        pthread_mutex_unlock(&caller_);
    }

private:
    struct Worker { Pool* pool; Worker* older; sem_t start; };

    // The number of workers to use, at most `wanted`: fewer where the system gives no more threads.
    int grow(int wanted)
    {
        for (; num_workers_ < wanted; ++num_workers_) {
            Worker* const worker = (Worker*)malloc(sizeof(Worker));
            worker->pool = this;
            worker->older = newest_;
            sem_init(&worker->start, 0, 0);
            pthread_t thread;
            if (pthread_create(&thread, nullptr, &Pool::serve, worker)) { free(worker); return num_workers_; }
            pthread_detach(thread);
            newest_ = worker;
        }
        return wanted;
    }

    static void* serve(void* argument)
    {
        Worker& worker = *(Worker*)argument;
        for (Pool& pool = *worker.pool;;) {
            wait(worker.start);
            pool.job_->work();
            if (__atomic_sub_fetch(&pool.pending_, 1, __ATOMIC_ACQ_REL) == 0) sem_post(&pool.done_);
        }
    }

    static void wait(sem_t& semaphore) { while (sem_wait(&semaphore)) {} }      // again after a signal

    pthread_mutex_t caller_ = PTHREAD_MUTEX_INITIALIZER;
    sem_t done_;
    Job* job_ = nullptr;
    Worker* newest_ = nullptr;
    int num_workers_ = 0, pending_ = 0;
    pid_t process_ = getpid();
};

Pool pool;

}  // namespace

extern "C" __attribute__((visibility("default"))) void splat_run_blocks(
    BlockRange range, void* launch, long num_blocks, int fibers_per_block, int num_threads)
{
    if (num_threads > num_blocks) num_threads = (int)num_blocks;
    long chunk = num_blocks / (num_threads * 16L + 1);           // small enough to even out, large enough not to contend
    chunk = chunk < 1 ? 1 : chunk > 64 ? 64 : chunk;
    Job job{range, launch, num_blocks, chunk, fibers_per_block, 0};
    pool.run(job, num_threads);
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
