"""The CPU backend: kernels compiled by the host's C++ compiler, blocks distributed over the cores."""

import ctypes
import functools
import struct
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.device.arguments import Parameter, check_count, check_launch, check_pointer, scalar_value, struct_value
from splat_cli.device.backend import Backend, Kernel, Unit, Uploads
from splat_cli.device.compilation.host_compiler import check_preloaded, find_compiler
from splat_cli.device.compilation.kernel_cache import load_library
from splat_cli.device.compilation.sources import CompiledUnits, KernelSource, read_source, source_folders
from splat_cli.device.host import how_limited, main_memory, num_cores, peak_memory
from splat_cli.errors import MemoryLimit, ShapeError, UsageError

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
        """Record the work of `function` without running it, and return it as one function."""
        recorded = self._recorded = []
        try:
            function()
        finally:
            self._recorded = None

        def replay() -> None:
            for work in recorded:
                work()

        return replay


class CpuKernel(Kernel):
    """One kernel of a compiled library."""

    def __init__(
        self,
        name: str,
        parameters: tuple[Parameter, ...],
        library: ctypes.CDLL,
        runtime: ctypes.CDLL,
        threads: int,
        recorder: Recorder,
    ) -> None:
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
        """Run the kernel with packed arguments. As on a GPU, the caller keeps the arrays alive.

        MemoryLimit if there is no memory for the stacks of the threads.
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
    """`struct` format of an argument of `size` bytes, padded to a multiple of 8 (cuda_src/cpu/launch.h)."""
    if parameter.is_pointer:
        return "Q"
    value = f"{size}s" if parameter.dtype is None else _FORMATS[parameter.dtype.name]
    return value + f"{-size % 8}x"


class CpuUploads(Uploads):
    """No copies: arrays are in main memory."""

    def stage(self, array: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(array)

    def put(self, staged: np.ndarray) -> np.ndarray:
        return staged

    def join(self) -> None:
        """The copies are done."""

    def mark(self) -> Callable[[], None]:
        return lambda: None


class CpuBackend(Backend):
    """Kernels on the CPU's cores; arrays are NumPy's."""

    name = "cpu"
    xp: Any = np

    def __init__(
        self,
        threads: int | None = None,
        sanitize: bool = False,
        sources: Path | None = None,
        flags: tuple[str, ...] = (),
    ) -> None:
        """See open_backend. flags: further compiler flags, such as -march=x86-64-v2."""
        if threads is not None and threads < 1:
            raise UsageError(f"threads must be at least 1, got {threads}")
        if sanitize:
            check_preloaded()
        self._folders = source_folders(sources)
        self._compiler = find_compiler(sanitize, flags)
        # sanitized builds have static __shared__ memory, so that it gets red zones: one block at a time
        self._threads = 1 if sanitize else threads or num_cores()
        runtime = self._compiler.library("runtime", '#include "cpu/runtime.cpp"\n', self._folders, {})
        self._runtime = load_library(runtime)
        self._runtime.splat_simd.restype = ctypes.c_char_p
        self._recorder = Recorder()
        self._kernels: dict[tuple, CpuKernel] = {}
        self._units = CompiledUnits(self._load_library)

    def kernel(self, file: str, name: str, **defines: int) -> "CpuKernel":
        key = (file, name, *sorted(defines.items()))
        if key not in self._kernels:
            source, library = self._units.get(file, defines)
            self._kernels[key] = CpuKernel(
                name, source.parameters(name), library, self._runtime, self._threads, self._recorder
            )
        return self._kernels[key]

    def prepare(self, units: Iterable[Unit]) -> Callable[[], None]:
        return self._units.prepare(units, num_cores())

    def _load_library(self, file: str, defines: dict[str, int]) -> tuple[KernelSource, ctypes.CDLL]:
        source = read_source(self._folders, file)
        return source, load_library(self._compiler.library(file, source.cpu_unit(), self._folders, defines))

    def upload(self, array: np.ndarray) -> np.ndarray:
        return np.array(array, order="C")

    def download(self, array: np.ndarray) -> np.ndarray:
        return np.array(array, order="C")

    def uploads(self) -> CpuUploads:
        return CpuUploads()

    def address(self, array: np.ndarray) -> int:
        return array.ctypes.data

    def planes(self, rows: int, columns: int, on_device: int) -> np.ndarray:
        """See Backend.planes; all rows are in main memory."""
        return self.xp.zeros((rows, columns), "float32")

    def host_room(self) -> int:
        return 0

    def synchronize(self) -> None:
        """Does nothing: launches are synchronous."""

    def timer(self) -> "CpuTimer":
        return CpuTimer()

    def capture_graph(self, function: Callable[[], None]) -> Callable[[], None]:
        """See Backend.capture_graph: a list of packed launches, replayed without the Python code around them."""
        return self._recorder.record(function)

    def branch(self, launch: Callable[[], None], number: int = 0) -> Callable[[], None]:
        """See Backend.branch; launches run in the order of calls."""
        launch()
        return lambda: None

    def fill(self, array: np.ndarray, value: float) -> None:
        self._recorder.run(functools.partial(array.fill, value))

    def memory(self) -> tuple[int, int]:
        return main_memory()

    def release_cached(self) -> None:
        """See Backend.release_cached: there is no cache."""

    @property
    def peak_bytes(self) -> int:
        """See Backend.peak_bytes: the largest resident set of the process."""
        return peak_memory()

    def describe(self) -> str:
        simd = self._runtime.splat_simd().decode()
        return f"CPU, {self._threads} thread{'s' * (self._threads > 1)}, {self._compiler.label} ({simd})"


class CpuTimer:
    """Wall-clock time of a `with` block."""

    ms = 0.0

    def __enter__(self) -> "CpuTimer":
        self._start = time.perf_counter()
        return self

    def __exit__(self, *exc: object) -> None:
        self.ms = 1e3 * (time.perf_counter() - self._start)
