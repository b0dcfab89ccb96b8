// A disk that fails at a chosen operation, for a process that has this library preloaded.
//
// fault_arm(folder, nth, kind): operation number `nth` (from 1) on a path under `folder` fails: an open, read, write,
// fsync, rename, unlink, mkdir, truncation or the listing of a folder. 0 for nth: operations are only recorded;
// fault_record() has one letter for each so far.
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

#define EXPORT extern "C" __attribute__((visibility("default")))

enum Kind { EIO_ONCE = 1, ENOSPC_ONCE, EACCES_ONCE, SHORT_WRITE, TORN_WRITE, FULL_DISK, KILL };
enum Operation { OPEN, CREATE, READ, WRITE, FSYNC, RENAME, UNLINK, MKDIR, TRUNCATE, LIST };
static const char* const NAMES[] = {"open", "create", "read", "write", "fsync", "rename", "unlink", "mkdir", "truncate", "list"};
static const char LETTERS[] = "ocrwfnumtl";

static char folder[4096], struck[4200], record[1 << 16];
static std::atomic<long> counter(0), nth(0);
static std::atomic<int> kind(0), torn(0);

EXPORT void fault_arm(const char* path, long number, int how)
{
    snprintf(folder, sizeof folder, "%s", path);
    struck[0] = 0;
    counter = 0, torn = 0, kind = how, nth = number;
}

EXPORT const char* fault_record() { return record; }
EXPORT const char* fault_struck() { return struck; }

static bool is_inside(const char* path)
{
    const size_t length = strlen(folder);
    return length && path && !strncmp(path, folder, length) && (path[length] == '/' || !path[length]);
}

static bool is_inside(int handle, char (&path)[4096])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    return is_inside(path);
}

// 0, or the errno that the operation on `path` fails with; -1: only half of the data is written.
static int fault(Operation operation, const char* path)
{
    const long number = ++counter;
    if (number < (long)sizeof record) record[number - 1] = LETTERS[operation];
    if (!nth || number < nth) return 0;
    if (operation == WRITE && torn.exchange(0)) return ENOSPC;
    if (number == nth) snprintf(struck, sizeof struck, "%s %s", NAMES[operation], path + strlen(folder));
    if (kind == FULL_DISK) return operation == CREATE || operation == WRITE || operation == MKDIR ? ENOSPC : 0;
    if (number != nth) return 0;
    switch (kind) {
        case EIO_ONCE: return EIO;
        case ENOSPC_ONCE: return ENOSPC;
        case EACCES_ONCE: return EACCES;
        case TORN_WRITE: torn = operation == WRITE;  // falls through: half is written
        case SHORT_WRITE: return operation == WRITE ? -1 : 0;
        case KILL:
            if (operation == WRITE) return -1;
            kill(getpid(), SIGKILL);
    }
    return 0;
}

template <class F>
static F next(const char* name, F) { return (F)dlsym(RTLD_NEXT, name); }

#define FAIL_ON(operation, path)                                    \
    if (is_inside(path)) {                                          \
        const int number = fault(operation, path);                  \
        if (number > 0) { errno = number; return -1; }              \
    }
#define NEXT(name) static const auto real = next(#name, &name)

#define DEFINE_OPEN(name, parameters, arguments)                    \
    EXPORT int name parameters                                      \
    {                                                               \
        NEXT(name);                                                 \
        va_list optional;                                           \
        va_start(optional, flags);                                  \
        const mode_t mode = flags & O_CREAT ? va_arg(optional, mode_t) : 0; \
        va_end(optional);                                           \
        FAIL_ON(flags & O_CREAT ? CREATE : OPEN, path)              \
        return real arguments;                                      \
    }
DEFINE_OPEN(open, (const char* path, int flags, ...), (path, flags, mode))
DEFINE_OPEN(open64, (const char* path, int flags, ...), (path, flags, mode))
DEFINE_OPEN(openat, (int at, const char* path, int flags, ...), (at, path, flags, mode))
DEFINE_OPEN(openat64, (int at, const char* path, int flags, ...), (at, path, flags, mode))

EXPORT ssize_t write(int handle, const void* data, size_t size)
{
    NEXT(write);
    char path[4096];
    if (is_inside(handle, path)) {
        const int number = fault(WRITE, path);
        if (number > 0) { errno = number; return -1; }
        if (number < 0) {
            size = size > 1 ? size / 2 : size;
            const ssize_t written = real(handle, data, size);
            if (kind == KILL) kill(getpid(), SIGKILL);
            return written;
        }
    }
    return real(handle, data, size);
}

EXPORT ssize_t read(int handle, void* data, size_t size)
{
    NEXT(read);
    char path[4096];
    is_inside(handle, path);
    FAIL_ON(READ, path)
    return real(handle, data, size);
}

EXPORT DIR* opendir(const char* path)
{
    NEXT(opendir);
    if (is_inside(path)) {
        const int number = fault(LIST, path);
        if (number > 0) { errno = number; return nullptr; }
    }
    return real(path);
}

#define DEFINE_ON_HANDLE(name, operation, parameters, ...)          \
    EXPORT int name parameters                                      \
    {                                                               \
        NEXT(name);                                                 \
        char path[4096];                                            \
        is_inside(handle, path);                                    \
        FAIL_ON(operation, path)                                    \
        return real(__VA_ARGS__);                                   \
    }
DEFINE_ON_HANDLE(fsync, FSYNC, (int handle), handle)
DEFINE_ON_HANDLE(fdatasync, FSYNC, (int handle), handle)
DEFINE_ON_HANDLE(ftruncate, TRUNCATE, (int handle, off_t length) noexcept, handle, length)
DEFINE_ON_HANDLE(ftruncate64, TRUNCATE, (int handle, off64_t length) noexcept, handle, length)

#define DEFINE_ON_PATH(name, operation, parameters, ...)            \
    EXPORT int name parameters noexcept                             \
    {                                                               \
        NEXT(name);                                                 \
        FAIL_ON(operation, path)                                    \
        return real(__VA_ARGS__);                                   \
    }
DEFINE_ON_PATH(rename, RENAME, (const char* path, const char* target), path, target)
DEFINE_ON_PATH(unlink, UNLINK, (const char* path), path)
DEFINE_ON_PATH(rmdir, UNLINK, (const char* path), path)
DEFINE_ON_PATH(mkdir, MKDIR, (const char* path, mode_t mode), path, mode)
