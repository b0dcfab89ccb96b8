"""Launches of the CPU backend's kernels: packed arguments, run at once or recorded."""

import ctypes
import functools
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from splat_cli.device.arguments import check_count, check_launch, check_pointer, scalar_value, struct_value
from splat_cli.device.host import how_limited
from splat_cli.device.signature import Parameter
from splat_cli.errors import MemoryLimit, ShapeError

_FORMATS = {
    "float32": "f", "float64": "d", "bool": "?", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H",
    "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q",
}  # fmt: skip


class Recorder(threading.local):
    """Runs work, or adds it to a list while the calling thread records."""

    def __init__(self) -> None:
        self._recorded: list[Callable[[], object]] | None = None

    def run(self, work: Callable[[], object]) -> None:
        """Run or record `work`."""
        if self._recorded is None:
            work()
        else:
            self._recorded.append(work)

    def record(self, function: Callable[[], None]) -> Callable[[], None]:
        """The work of `function`, which is not run, as one call."""
        recorded = self._recorded = []
        try:
            function()
        finally:
            self._recorded = None

        def replay() -> None:
            for work in recorded:
                work()

        return replay


class CpuKernel:
    """One kernel of a compiled library."""

    def __init__(
        self, name: str, parameters: tuple[Parameter, ...], library: ctypes.CDLL, runtime: ctypes.CDLL, threads: int,
        recorder: Recorder,
    ) -> None:  # fmt: skip
        self.name = name
        self._recorder = recorder
        self._parameters = parameters
        self._threads = threads
        self._run_blocks = ctypes.cast(runtime.splat_run_blocks, ctypes.c_void_p)
        self._launch = library[f"splat_launch_{name}"]
        self._launch.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int)
        self._launch.restype = ctypes.c_bool
        sizes = library[f"splat_parameters_{name}"]
        sizes.restype = ctypes.POINTER(ctypes.c_int)
        self._sizes = sizes()[: len(parameters)]
        self._packer = struct.Struct("=" + "".join(map(_slot, parameters, self._sizes)))

    def __call__(self, grid: Sequence[int], block: Sequence[int], *args: Any) -> None:
        """See Kernel."""
        shape = check_launch(self.name, grid, block)
        check_count(self.name, self._parameters, args)
        values = map(self._value, self._parameters, self._sizes, args)
        packed = struct.pack("=6I", *shape), self._packer.pack(*values)
        self._recorder.run(functools.partial(self.launch, *packed))

    def launch(self, shape: bytes, packed: bytes) -> None:
        """Run the kernel with packed arguments: as on a GPU, addresses of arrays that others keep alive.

        MemoryLimit where the system gives no memory for the threads of blocks.
        """
        if not self._launch(self._run_blocks, shape, packed, self._threads):
            raise MemoryLimit(f"not enough memory for the stacks of the CPU's threads: {how_limited()}")

    def _value(self, parameter: Parameter, size: int, arg: Any) -> Any:
        if parameter.is_pointer:
            if arg is None:
                return 0
            check_pointer(self.name, parameter, arg, np.ndarray)
            return arg.ctypes.data
        if parameter.dtype is not None:
            return scalar_value(self.name, parameter, arg)
        data = struct_value(self.name, parameter, arg).tobytes()
        if len(data) != size:
            raise ShapeError(f"{self.name}: {parameter.label} is a struct of {size} bytes, got {len(data)}")
        return data


def _slot(parameter: Parameter, size: int) -> str:
    """How `struct` packs an argument of `size` bytes: each begins at a multiple of 8 bytes (cuda_src/cpu/launch.h)."""
    if parameter.is_pointer:
        return "Q"
    value = f"{size}s" if parameter.dtype is None else _FORMATS[parameter.dtype.name]
    return value + f"{-size % 8}x"
