"""The CUDA backend, through CuPy: kernels, captured graphs, timers, uploads.

Kernels are compiled by NVRTC. All work runs on one stream and its branches.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from splat_cli.device.arguments import (
    Parameter,
    check_count,
    check_launch,
    check_pointer,
    describe,
    scalar_value,
    struct_value,
)
from splat_cli.device.backend import Backend, DeviceArray, Kernel, Unit, Uploads
from splat_cli.device.compilation.sources import (
    CompiledUnits,
    KernelSource,
    headers_digest,
    read_source,
    source_folders,
)
from splat_cli.device.host import main_memory
from splat_cli.device.split_memory import SplitMemory, can_map_host_memory, driver
from splat_cli.errors import DeviceError, KernelError


class CudaKernel(Kernel):
    """One function of a compiled module. wait: called before and after each launch to wait for the device, or None."""

    def __init__(
        self,
        name: str,
        parameters: tuple[Parameter, ...],
        function: Any,
        array_type: type,
        wait: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self._parameters = parameters
        self._function = function
        self._array_type = array_type
        self._wait = wait

    def __call__(self, grid: Sequence[int], block: Sequence[int], *args: Any) -> None:
        """See Kernel."""
        shape = check_launch(self.name, grid, block)
        check_count(self.name, self._parameters, args)
        values = tuple(map(self._value, self._parameters, args))
        if self._wait is None:
            self._function(shape[:3], shape[3:], values)
            return
        try:  # errors are sticky: this one may come from earlier work
            self._wait()
        except RuntimeError as error:  # CuPy's errors of CUDA's runtime and driver are RuntimeErrors
            raise KernelError(f"work of the device before kernel {self.name} failed: {error}") from error
        try:
            self._function(shape[:3], shape[3:], values)
            self._wait()
        except RuntimeError as error:
            raise KernelError(f"{self._described(shape, args)} failed: {error}") from error

    def _described(self, shape: Sequence[int], args: Sequence[Any]) -> str:
        """Description of a launch: kernel, grid, block, arguments."""
        shown = ", ".join(f"{p.name} {describe(arg)}" for p, arg in zip(self._parameters, args, strict=True))
        return f"kernel {self.name} on grid {tuple(shape[:3])}, block {tuple(shape[3:])} with {shown}"

    def _value(self, parameter: Parameter, arg: Any) -> Any:
        if parameter.is_pointer:
            if arg is None:
                return np.uint64(0)
            check_pointer(self.name, parameter, arg, self._array_type)
            return arg
        if parameter.dtype is not None:
            return scalar_value(self.name, parameter, arg)
        return struct_value(self.name, parameter, arg)


USE_NODE_PRIORITY = 8  # CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY; otherwise the launching stream's priority counts


class PrioritizedGraph:
    """An executable of a captured cupy.cuda.Graph that keeps priorities. CuPy's own executable ignores them."""

    def __init__(self, graph: Any) -> None:
        """DeviceError if the driver refuses the graph."""
        self._driver = driver()
        self._graph, self._executable = graph, ctypes.c_void_p()
        self._check(
            self._driver.cuGraphInstantiateWithFlags(
                ctypes.byref(self._executable), ctypes.c_void_p(graph.graph), ctypes.c_ulonglong(USE_NODE_PRIORITY)
            )
        )
        weakref.finalize(self, self._driver.cuGraphExecDestroy, self._executable).atexit = False

    def launch(self, stream: Any) -> None:
        """Queue the graph on a cupy.cuda.Stream."""
        self._check(self._driver.cuGraphLaunch(self._executable, ctypes.c_void_p(stream.ptr)))

    @staticmethod
    def _check(code: int) -> None:
        if code:
            raise DeviceError(f"CUDA rejects a captured graph (error {code}): update the driver, or use --debug")


class CudaTimer:
    """Device time between two events on a stream."""

    def __init__(self, xp: Any, stream: Any) -> None:
        self._xp, self._stream = xp, stream
        self._start, self._end = xp.cuda.Event(), xp.cuda.Event()

    def __enter__(self) -> CudaTimer:
        self._start.record(self._stream)
        return self

    def __exit__(self, *exc: object) -> None:
        self._end.record(self._stream)

    @property
    def ms(self) -> float:
        """Milliseconds between entry and exit; waits for the end."""
        self._end.synchronize()
        return self._xp.cuda.get_elapsed_time(self._start, self._end)


class CudaUploads(Uploads):
    """Copies from page-locked memory on a separate stream."""

    def __init__(self, xp: Any, stream: Any) -> None:
        """xp: cupy. stream: the backend's stream."""
        self._xp, self._main = xp, stream
        self._own = xp.cuda.Stream(non_blocking=True)
        self._copying: list[np.ndarray] = []
        self._joined: Any = None

    def stage(self, array: np.ndarray) -> np.ndarray:
        from cupyx import empty_pinned

        staged = empty_pinned(array.shape, array.dtype)
        staged[...] = array
        return staged

    def put(self, staged: np.ndarray) -> DeviceArray:
        if self._joined is not None:  # wait for earlier copies, then drop their sources
            self._joined.synchronize()
            self._joined = None
            self._copying.clear()
        with self._own:  # from this stream's own pool, so that only later copies reuse freed memory
            target = self._xp.empty(staged.shape, staged.dtype)
        target.data.copy_from_host_async(staged.ctypes.data, staged.nbytes, self._own)
        self._copying.append(staged)
        return target

    def join(self) -> None:
        self._joined = self._own.record()
        self._main.wait_event(self._joined)

    def mark(self) -> Callable[[], None]:
        return self._main.record(self._xp.cuda.Event(disable_timing=True)).synchronize


class _Owner:
    """Object that arrays in split memory keep alive."""


LIBRARY_SIZE = 1 << 16  # elements, enough to use the kernels for large arrays
MAX_COMPILERS = 8  # compiling threads; others decode photographs at the same time
_of_thread = threading.local()  # streams of the thread, by device


def require_cuda() -> None:
    """DeviceError with the reason if there is no GPU."""
    if reason := why_no_cuda():
        raise DeviceError(f"no CUDA device: {reason}; or use --device cpu")


def why_no_cuda() -> str:
    """Reason why CUDA cannot be used, with advice; empty if it can."""
    try:
        import cupy
    except ImportError:
        return "CuPy is not installed (pip install 'splat-cli[cuda13]', or [cuda12] for an older driver)"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CuPy sees no GPU ({error}); check `nvidia-smi`"
    return "" if count else "CuPy sees no GPU; check `nvidia-smi`"


def visible_gpus(count: int) -> list[str]:
    """Names of the visible GPUs in CUDA_VISIBLE_DEVICES; without it, the numbers of `count` GPUs."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",") if visible else [str(number) for number in range(count)]


def _stream(xp: Any) -> Any:
    """Make the stream that this thread's backends share on the current device the current one, and return it.

    Launches go to the current stream, but a graph is captured from its backend's stream. If a backend opened in
    between had its own stream, the graph would be empty and training would hang.
    """
    streams = vars(_of_thread)
    device = str(xp.cuda.Device().id)
    if device not in streams:
        streams[device] = xp.cuda.Stream(non_blocking=True)
    # Enter the stream instead of calling `use()`: CuPy's own `with` blocks, as in downloads, return to the stream
    # entered last
    streams[device].__enter__()
    return streams[device]


class CudaBackend(Backend):
    """Kernels on the current CUDA device; arrays are CuPy's.

    All work is queued on one stream, which becomes current in the calling thread: use the backend from that thread.
    """

    name = "cuda"
    debug: ClassVar[bool] = False
    """Whether each launch waits for its end, so that errors name the kernel; for the whole process (`--debug`)."""

    def __init__(self, sources: Path | None = None) -> None:
        import cupy

        self.xp = cupy
        self.stream = _stream(cupy)
        self._branches = list[Any]()
        self._folders = source_folders(sources)
        self._kernels: dict[tuple, CudaKernel] = {}
        self._units = CompiledUnits(self._load_module)
        self._device = cupy.cuda.Device()
        self._split: list[SplitMemory] = []  # in use
        self._unused: list[SplitMemory] = []
        self._split_peak = 0

    def kernel(self, file: str, name: str, **defines: int) -> CudaKernel:
        key = (file, name, *sorted(defines.items()))
        if key not in self._kernels:
            source, module = self._units.get(file, defines)
            parameters = source.parameters(name)
            wait = self.xp.cuda.runtime.deviceSynchronize if self.debug else None
            self._kernels[key] = CudaKernel(name, parameters, module.get_function(name), self.xp.ndarray, wait)
        return self._kernels[key]

    def prepare(self, units: Iterable[Unit]) -> Callable[[], None]:
        """See Backend.prepare. Also loads CuPy's own kernels, in another thread."""
        threading.Thread(target=self._load_library_kernels, daemon=True).start()
        return self._units.prepare(units, MAX_COMPILERS, enter=self._device.use)

    def _load_library_kernels(self) -> None:
        """Load kernels for sorts and sums by using them once, which takes 0.12 s and 0.02 s."""
        xp = self.xp
        with (
            suppress(Exception),
            self._device,
            xp.cuda.Stream(non_blocking=True) as stream,
        ):  # raised at the first use
            xp.argsort(xp.zeros(LIBRARY_SIZE, "uint64"))
            xp.cumsum(xp.zeros(LIBRARY_SIZE, "int64"))
            stream.synchronize()

    def _load_module(self, file: str, defines: dict[str, int]) -> tuple[KernelSource, Any]:
        source = read_source(self._folders, file)
        # All units have the same options: for each other set, CuPy compiles an empty file to find the key of its cache.
        # The cache ignores included files: their digest makes them part of the key.
        options = ("-std=c++17", *(f"-I{folder}" for folder in self._folders))
        code = source.cuda_unit(defines, headers_digest(source.text, self._folders))
        module = self.xp.RawModule(code=code, options=options)
        try:
            module.compile()
        except self.xp.cuda.compiler.CompileException as error:
            raise DeviceError(f"NVRTC cannot compile {source.path.name}:\n{error}") from error
        return source, module

    def upload(self, array: np.ndarray) -> DeviceArray:
        return self.xp.array(array, order="C")

    def download(self, array: DeviceArray) -> np.ndarray:
        return self.xp.asnumpy(array, order="C")

    def uploads(self) -> CudaUploads:
        return CudaUploads(self.xp, self.stream)

    def address(self, array: DeviceArray) -> int:
        return array.data.ptr

    def planes(self, rows: int, columns: int, on_device: int) -> DeviceArray:
        if on_device == rows or columns == 0:
            return self.xp.zeros((rows, columns), "float32")
        self._free_unused()
        memory = SplitMemory(self.xp, 4 * rows * columns, 4 * on_device * columns)
        self._split.append(memory)
        self._split_peak = max(self._split_peak, sum(part.on_device for part in self._split))
        owner = _Owner()
        weakref.finalize(owner, self._unused.append, memory).atexit = False
        block = self.xp.cuda.UnownedMemory(memory.address.value, memory.size, owner)
        planes = self.xp.ndarray((rows, columns), "float32", self.xp.cuda.MemoryPointer(block, 0))
        planes.fill(0)
        return planes

    def _free_unused(self) -> None:
        """Free split memory without arrays; not in their finalizer, which may run while a graph is captured."""
        if self._unused:
            self.synchronize()
        while self._unused:
            memory = self._unused.pop()
            self._split.remove(memory)
            memory.free()

    def host_room(self) -> int:
        """See Backend.host_room: half of the free memory, 0 if the driver cannot map it. Checkpoints need the rest."""
        return main_memory()[0] // 2 if can_map_host_memory(self.xp) else 0

    def synchronize(self) -> None:
        self.stream.synchronize()

    def timer(self) -> CudaTimer:
        return CudaTimer(self.xp, self.stream)

    def capture_graph(self, function: Callable[[], None]) -> Callable[[], None]:
        """See Backend.capture_graph: a CUDA graph; with `debug` the function itself, because a capture cannot wait."""
        if self.debug:
            return function
        with self.stream:
            self.stream.begin_capture()
            try:
                function()
            finally:
                graph = self.stream.end_capture()  # also after an error, to leave capture mode
        executable, current = PrioritizedGraph(graph), self.xp.cuda.get_current_stream
        return lambda: executable.launch(current())

    def branch(self, launch: Callable[[], None], number: int = 0) -> Callable[[], None]:
        """See Backend.branch: a stream of higher priority."""
        event = functools.partial(self.xp.cuda.Event, disable_timing=True)
        while len(self._branches) <= number:  # lower runs first; the main stream has 0
            self._branches.append(self.xp.cuda.Stream(non_blocking=True, priority=-1))
        branch = self._branches[number]
        branch.wait_event(self.stream.record(event()))
        with branch:
            launch()
        return functools.partial(self.stream.wait_event, branch.record(event()))

    def fill(self, array: DeviceArray, value: float) -> None:
        array.fill(value)

    def memory(self) -> tuple[int, int]:
        self._free_unused()  # of trial runs
        free, total = self.xp.cuda.runtime.memGetInfo()
        return free + self.xp.get_default_memory_pool().free_bytes(), total

    def release_cached(self) -> None:
        """See Backend.release_cached: frees the unused blocks of CuPy's memory pool."""
        self.synchronize()
        self._free_unused()
        self.xp.get_default_memory_pool().free_all_blocks()

    @property
    def peak_bytes(self) -> int:
        """See Backend.peak_bytes: the size of CuPy's memory pool, which never shrinks by itself, and split memory."""
        return self.xp.get_default_memory_pool().total_bytes() + self._split_peak

    def describe(self) -> str:
        runtime = self.xp.cuda.runtime
        properties = runtime.getDeviceProperties(self.xp.cuda.Device().id)
        version = runtime.runtimeGetVersion()
        gib = properties["totalGlobalMem"] / 2**30
        return f"{properties['name'].decode()}, {gib:.0f} GiB, CUDA {version // 1000}.{version % 1000 // 10}"
