"""Where kernels run: compile, cache, check arguments and launch, on a GPU or on the CPU."""

from splat_cli.device.arguments import check_arrays
from splat_cli.device.backend import Backend, Kernel, Timer, open_backend

__all__ = ["Backend", "Kernel", "Timer", "check_arrays", "open_backend"]
