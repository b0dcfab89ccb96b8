"""The CPU backend: kernels compiled by the host's C++ compiler, blocks distributed over the cores."""

import ctypes
import functools
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.device.compilation.host_compiler import find_compiler
from splat_cli.device.compilation.sanitizer import check_preloaded
from splat_cli.device.compilation.sources import KernelSource, read_source, source_folders
from splat_cli.device.compiled_units import CompiledUnits, Unit
from splat_cli.device.cpu_kernel import CpuKernel, Recorder
from splat_cli.device.host import main_memory, num_cores, peak_memory
from splat_cli.device.uploads import CpuUploads
from splat_cli.errors import UsageError


class CpuBackend:
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
        """See open_backend; `flags`: further compiler flags, such as -march=x86-64-v2."""
        if threads is not None and threads < 1:
            raise UsageError(f"threads must be at least 1, got {threads}")
        if sanitize:
            check_preloaded()
        self._folders = source_folders(sources)
        self._compiler = find_compiler(sanitize, flags)
        # __shared__ memory of a sanitized build is static, so that it gets red zones: one block at a time
        self._threads = 1 if sanitize else threads or num_cores()
        runtime = self._compiler.library("runtime", '#include "cpu/runtime.cpp"\n', self._folders, {})
        self._runtime = ctypes.CDLL(str(runtime))
        self._runtime.splat_simd.restype = ctypes.c_char_p
        self._recorder = Recorder()
        self._kernels: dict[tuple, CpuKernel] = {}
        self._units = CompiledUnits(self._load_library)

    def kernel(self, file: str, name: str, **defines: int) -> "CpuKernel":
        """See Backend.kernel."""
        key = (file, name, *sorted(defines.items()))
        if key not in self._kernels:
            source, library = self._units.get(file, defines)
            self._kernels[key] = CpuKernel(
                name, source.parameters(name), library, self._runtime, self._threads, self._recorder
            )
        return self._kernels[key]

    def prepare(self, units: Iterable[Unit]) -> Callable[[], None]:
        """See Backend.prepare."""
        return self._units.prepare(units, num_cores())

    def _load_library(self, file: str, defines: dict[str, int]) -> tuple[KernelSource, ctypes.CDLL]:
        source = read_source(self._folders, file)
        return source, ctypes.CDLL(str(self._compiler.library(file, source.cpu_unit(), self._folders, defines)))

    def upload(self, array: np.ndarray) -> np.ndarray:
        """See Backend.upload."""
        return np.array(array, order="C")

    def download(self, array: np.ndarray) -> np.ndarray:
        """See Backend.download."""
        return np.array(array, order="C")

    def uploads(self) -> CpuUploads:
        """See Backend.uploads."""
        return CpuUploads()

    def address(self, array: np.ndarray) -> int:
        """See Backend.address."""
        return array.ctypes.data

    def synchronize(self) -> None:
        """Does nothing: launches are synchronous."""

    def timer(self) -> "CpuTimer":
        """See Backend.timer."""
        return CpuTimer()

    def capture_graph(self, function: Callable[[], None]) -> Callable[[], None]:
        """See Backend.capture_graph: here a list of packed launches, without the Python code around them."""
        return self._recorder.record(function)

    def branch(self, launch: Callable[[], None]) -> Callable[[], None]:
        """See Backend.branch: here in the order of calls."""
        launch()
        return lambda: None

    def fill(self, array: np.ndarray, value: float) -> None:
        """See Backend.fill."""
        self._recorder.run(functools.partial(array.fill, value))

    def memory(self) -> tuple[int, int]:
        """See Backend.memory."""
        return main_memory()

    def release_cached(self) -> None:
        """See Backend.release_cached: there is no cache."""

    @property
    def peak_bytes(self) -> int:
        """See Backend.peak_bytes: the process' largest resident set."""
        return peak_memory()

    def describe(self) -> str:
        """See Backend.describe."""
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
