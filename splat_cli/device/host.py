"""The computer that the program runs on: main memory, cores."""

import os
import sys

import psutil


def main_memory() -> tuple[int, int]:
    """Available and total main memory, in bytes."""
    memory = psutil.virtual_memory()
    return memory.available, memory.total  # `available` includes the file cache, `free` does not


def peak_memory() -> int:
    """Largest resident set of this process so far, in bytes."""
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    import resource  # psutil knows the peak only on Windows

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def how_limited() -> str:
    """Advice if the system refuses memory or threads; names the limit of this process, if there is one."""
    if sys.platform != "win32":
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            return (
                f"its address space is limited to {limit / 2**20:,.0f} MiB; raise the limit, e.g. ulimit -v unlimited"
            )
    return "the system has no more; close other programs"
