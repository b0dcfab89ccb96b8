"""The CPU backend: kernels compiled by the host's C++ compiler, blocks spread over the cores."""

import ctypes
import os
import resource
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.device.arguments import check_arrays, check_count, check_launch, check_pointer, scalar_value, struct_value
from splat_cli.device.host_compiler import find_compiler
from splat_cli.device.signature import Parameter, parse_kernels
from splat_cli.errors import DeviceError, ShapeError
from splat_cli.paths import resource_dir

MAX_THREADS = 1024  # of a block


class CpuBackend:
    """Kernels on the CPU's cores; arrays are NumPy's."""

    name = "cpu"
    xp = np

    def __init__(self, threads: int | None = None, sanitize: str | None = None, sources: Path | None = None) -> None:
        if sanitize not in (None, "address"):
            raise DeviceError(f"unknown sanitizer {sanitize!r}: expected address")
        shim = resource_dir("cuda_src")
        self._sources = sources or shim
        self._include = tuple(dict.fromkeys((shim, self._sources)))
        self._compiler = find_compiler(sanitize)
        # __shared__ memory of a sanitized build is static, so that it gets red zones: one block at a time
        self._threads = 1 if sanitize else threads or len(os.sched_getaffinity(0))
        runtime = self._compiler.library("runtime", '#include "cpu/runtime.cpp"\n', self._include, {})
        self._runtime = ctypes.CDLL(str(runtime))
        self._runtime.splat_simd.restype = ctypes.c_char_p
        self._kernels: dict[tuple, CpuKernel] = {}

    def kernel(self, file: str, name: str, **defines: int) -> "CpuKernel":
        """See Backend.kernel."""
        key = (file, name, *sorted(defines.items()))
        if key not in self._kernels:
            library, signatures = self._load(file, defines)
            if name not in signatures:
                raise DeviceError(f"{file}.cu has no kernel {name}; it has {', '.join(signatures)}")
            self._kernels[key] = CpuKernel(name, signatures[name], library, self._runtime, self._threads)
        return self._kernels[key]

    def _load(self, file: str, defines: dict[str, int]) -> tuple[ctypes.CDLL, dict[str, tuple[Parameter, ...]]]:
        path = self._sources / f"{file}.cu"
        if not path.is_file():
            raise DeviceError(f"no kernel file {path}")
        signatures = parse_kernels(path.read_text(encoding="utf-8"))
        exports = "".join(f"SPLAT_CPU_EXPORT({name})\n" for name in signatures)
        unit = f'#include "cpu/shim.h"\n#include "{path}"\n#include "cpu/launch.h"\n{exports}'
        return ctypes.CDLL(str(self._compiler.library(file, unit, self._include, defines))), signatures

    def sort_pairs(
        self, keys: np.ndarray, values: np.ndarray, keys_out: np.ndarray, values_out: np.ndarray, count: np.ndarray,
        num_bits: int,
    ) -> None:  # fmt: skip
        """See Backend.sort_pairs."""
        uint32 = np.uint32
        size = check_arrays("sort_pairs", keys=(keys, uint32, "capacity"), values=(values, uint32, "capacity"),
                            keys_out=(keys_out, uint32, "capacity"), values_out=(values_out, uint32, "capacity"),
                            count=(count, uint32, "1"))["capacity"]  # fmt: skip
        if not 0 <= num_bits <= 32:
            raise ShapeError(f"sort_pairs: num_bits must be 0 to 32, got {num_bits}")
        if int(count[0]) > size:
            raise ShapeError(f"sort_pairs: count is {count[0]}, the arrays hold {size}")
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (keys, values, keys_out, values_out)]
        self._runtime.splat_sort_pairs(*pointers, ctypes.c_size_t(int(count[0])), num_bits, self._threads)

    def upload(self, array: np.ndarray) -> np.ndarray:
        """See Backend.upload."""
        return np.array(array, order="C")

    def download(self, array: np.ndarray) -> np.ndarray:
        """See Backend.download."""
        return np.array(array, order="C")

    def address(self, array: np.ndarray) -> int:
        """See Backend.address."""
        return array.ctypes.data

    def synchronize(self) -> None:
        """Launches have ended when they return."""

    def timer(self) -> "CpuTimer":
        """See Backend.timer."""
        return CpuTimer()

    def capture(self, function: Callable[[], None]) -> Callable[[], None]:
        """See Backend.capture: here the function itself."""
        return function

    def memory(self) -> tuple[int, int]:
        """See Backend.memory."""
        page, total = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_PHYS_PAGES")
        return os.sysconf("SC_AVPHYS_PAGES") * page, total * page

    @property
    def peak_bytes(self) -> int:
        """See Backend.peak_bytes: the process' largest resident set."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def describe(self) -> str:
        """See Backend.describe."""
        simd = self._runtime.splat_simd().decode()
        return f"CPU, {self._threads} thread{'s' * (self._threads > 1)}, {self._compiler.label} ({simd})"


class CpuTimer:
    """Wall-clock time of a with block."""

    ms = 0.0

    def __enter__(self) -> "CpuTimer":
        self._start = time.perf_counter()
        return self

    def __exit__(self, *exc: object) -> None:
        self.ms = 1e3 * (time.perf_counter() - self._start)


class CpuKernel:
    """One kernel of a compiled library. Arguments are packed into a buffer in which each begins at a multiple of 8 bytes."""

    def __init__(
        self, name: str, parameters: tuple[Parameter, ...], library: ctypes.CDLL, runtime: ctypes.CDLL, threads: int
    ) -> None:
        self.name = name
        self._parameters = parameters
        self._threads = threads
        self._library = library
        self._run_blocks = ctypes.cast(runtime.splat_run_blocks, ctypes.c_void_p)
        self._launch = library[f"splat_launch_{name}"]
        self._launch.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int)
        self._launch.restype = None
        sizes = library[f"splat_parameters_{name}"]
        sizes.restype = ctypes.POINTER(ctypes.c_int)
        self._sizes = sizes()[: len(parameters)]
        slots = (self._slot(p, size) for p, size in zip(parameters, self._sizes, strict=True))
        self._packer = struct.Struct("=" + "".join(slots))

    @staticmethod
    def _slot(parameter: Parameter, size: int) -> str:
        padding = f"{-size % 8}x" if size % 8 else ""
        if parameter.is_pointer:
            return "Q"
        return (f"{size}s" if parameter.dtype is None else parameter.dtype.char.replace("l", "q").replace("L", "Q")) + padding

    def __call__(self, grid: Sequence[int], block: Sequence[int], *args: Any) -> None:
        """See Kernel."""
        shape = check_launch(self.name, grid, "grid") + check_launch(self.name, block, "block")
        if shape[3] * shape[4] * shape[5] > MAX_THREADS:
            raise ShapeError(f"{self.name}: a block has at most {MAX_THREADS} threads, got {tuple(block)}")
        check_count(self.name, self._parameters, args)
        values = [self._value(p, size, arg) for p, size, arg in zip(self._parameters, self._sizes, args, strict=True)]
        self._launch(self._run_blocks, struct.pack("=6I", *shape), self._packer.pack(*values), self._threads)

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
            raise ShapeError(f"{self.name}: {parameter.name} (struct {parameter.type}) has {size} bytes, got {len(data)}")
        return data
