"""Kernel execution on a GPU or the CPU: compilation, caching, argument checks and launches."""

from splat_cli.device.arguments import check_arrays
from splat_cli.device.backend import Backend, DeviceArray, Kernel, Timer, Unit
from splat_cli.device.host import main_memory, num_cores
from splat_cli.device.select import open_backend, shared_backend

__all__ = [
    "Backend",
    "DeviceArray",
    "Kernel",
    "Timer",
    "Unit",
    "check_arrays",
    "main_memory",
    "num_cores",
    "open_backend",
    "shared_backend",
]
