"""Where kernels run: compile, cache, check arguments and launch, on a GPU or on the CPU."""

from splat_cli.device.arguments import check_arrays
from splat_cli.device.backend import Backend, Kernel, Timer, open_backend
from splat_cli.device.cpu import main_memory

__all__ = ["Backend", "Kernel", "Timer", "check_arrays", "main_memory", "open_backend"]
