"""Kernel execution on a GPU or the CPU: compilation, caching, argument checks and launches."""

import functools
import sys
from pathlib import Path

from splat_cli.device.arguments import check_arrays
from splat_cli.device.backend import Backend, DeviceArray, Kernel, MemoryCost, Timer, Unit, ceil_div, launch
from splat_cli.device.host import main_memory, num_cores
from splat_cli.errors import DeviceError, UsageError

__all__ = [
    "Backend",
    "DeviceArray",
    "Kernel",
    "MemoryCost",
    "Timer",
    "Unit",
    "ceil_div",
    "check_arrays",
    "launch",
    "main_memory",
    "num_cores",
    "open_backend",
    "shared_backend",
]


def open_backend(
    name: str = "auto", *, threads: int | None = None, sanitize: bool = False, sources: Path | None = None
) -> Backend:
    """Open a device: "cuda", "cpu", or "auto" (CUDA if CuPy sees a GPU, otherwise the CPU).

    `threads` (CPU): OS threads, by default one per core that this process may use. `sanitize` (CPU): compile
    the kernels with AddressSanitizer and UBSan, see host_compiler.py. `sources`: folder of further kernel files,
    searched before cuda_src. Raises DeviceError with advice if the device, its driver or a compiler is missing.
    """
    from splat_cli.device.cuda import CudaBackend, require_cuda, why_no_cuda

    if name not in ("auto", "cuda", "cpu"):
        raise UsageError(f"unknown device {name!r}: expected auto, cuda or cpu")
    reason = why_no_cuda() if name != "cpu" else ""
    if name != "cpu" and not reason:
        return CudaBackend(sources=sources)
    if name == "cuda":
        require_cuda()
    if sys.platform not in ("linux", "win32"):
        raise DeviceError(
            f"the CPU backend needs Linux or Windows, this is {sys.platform}" + f"; and {reason}" * bool(reason)
        )
    from splat_cli.device.cpu import CpuBackend

    return CpuBackend(threads=threads, sanitize=sanitize, sources=sources)


@functools.cache
def shared_backend(name: str) -> Backend:
    """Like `open_backend`, but opens each device only once per process."""
    return open_backend(name)
