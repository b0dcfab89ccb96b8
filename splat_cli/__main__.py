"""The entry point: `splat`, and `python -m splat_cli`."""

import os
import signal
import sys

_AMPLE, _AMPLE_PER_CORE = 1 << 30, 160 << 20
"""Bytes of address space that suffice with an arena of the C library for each thread."""
_M_ARENA_MAX = -8
"""An option of mallopt in the GNU C library; other libraries ignore it or have no mallopt."""


def main() -> None:
    """Runs `splat`. Ctrl-C ends the program without a traceback, even while its modules are imported."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported; threads of Python share the cores
    _save_address_space()
    from splat_cli.cli.main import main as run

    signal.signal(signal.SIGINT, handler)
    run()


def _save_address_space() -> None:
    """With a limited address space (ulimit -v), gives this process and its children one arena of the C library.

    The library reserves 64 to 128 MiB per thread, mostly unused.
    """
    if sys.platform == "win32":
        return
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY or limit >= _AMPLE + _AMPLE_PER_CORE * (os.cpu_count() or 1):
        return
    if "MALLOC_ARENA_MAX" in os.environ:
        return
    os.environ["MALLOC_ARENA_MAX"] = "1"  # for child processes
    import ctypes

    try:
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
    except (OSError, AttributeError):  # another C library
        return


if __name__ == "__main__":
    main()
