"""AddressSanitizer and UBSan for kernels: requirements of the process that loads them.

A sanitized kernel reports the line of accesses beyond an array, __shared__ memory or a local array, of uses after free,
and of undefined arithmetic. Start Python with `sanitizer_environment` added to its environment, as
scripts/checks/sanitized.py does, and open the backend with `sanitize=True`.
"""

import ctypes
from pathlib import Path

from splat_cli.device.compilation.host_compiler import HostCompiler
from splat_cli.errors import DeviceError


def sanitizer_environment(compiler: HostCompiler) -> dict[str, str]:
    """Variables for a process that loads sanitized kernels; DeviceError if the compiler has no sanitizer libraries.

    The libraries come before all others. Python's own allocator would hide errors within its arenas, and what the
    interpreter does not free at its end is no leak of a kernel.
    """
    names = ("libasan.so", "libubsan.so", "libstdc++.so")
    paths = [Path(compiler.query(f"-print-file-name={name}")) for name in names]
    if missing := [name for name, path in zip(names, paths, strict=True) if not path.is_absolute()]:
        raise DeviceError(f"{compiler.label} has no {', '.join(missing)}: install GCC's sanitizer libraries")
    return {
        "LD_PRELOAD": " ".join(str(path.resolve()) for path in paths),
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


def check_preloaded() -> None:
    """DeviceError unless this process was started with the sanitizer libraries."""
    if not hasattr(ctypes.CDLL(None), "__asan_init"):
        raise DeviceError("sanitized kernels need the sanitizer libraries: start with scripts/checks/sanitized.py")
