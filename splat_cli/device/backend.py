"""Interface of a device: arrays, kernels and their launches, memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

DeviceArray: TypeAlias = Any
"""An array of a backend: CuPy's on a GPU, NumPy's on the CPU."""
Unit: TypeAlias = tuple[str, Mapping[str, int]]
"""A file of cuda_src/ without its suffix, and its defines."""


class Kernel(Protocol):
    """A compiled kernel."""

    def __call__(self, grid: Sequence[int], block: Sequence[int], *args: Any) -> None:
        """Launch over `grid` blocks of `block` threads (1 to 3 ints each), asynchronously on a GPU.

        One argument for each parameter: for a pointer an array of the backend or None; for a scalar a NumPy scalar of
        its type, or an int for any integer and a float for any floating-point type; for a struct a structured scalar.
        Raises ShapeError for anything else.
        """


class Timer(Protocol):
    """Context manager that measures device time."""

    @property
    def ms(self) -> float:
        """Milliseconds; waits for the measured work to end."""

    def __enter__(self) -> Timer: ...

    def __exit__(self, *exc: object) -> None: ...


class Uploads(Protocol):
    """Copies that overlap with a backend's work."""

    def stage(self, array: np.ndarray) -> np.ndarray:
        """Copy of an array in memory suited to fast transfer; callable in any thread."""

    def put(self, staged: np.ndarray) -> DeviceArray:
        """Start a copy of a staged array; returns the device array, usable after `join`.

        Keep it until all work that reads it is done.
        """

    def join(self) -> None:
        """Make later work of the backend wait for the copies so far."""

    def mark(self) -> Callable[[], None]:
        """Return a function that waits for the work queued before this call, but not for later work."""


class Backend(Protocol):
    """A device with a single queue: all work except branches runs in the order of calls."""

    name: str
    """"cuda" or "cpu"."""
    xp: Any
    """The array module: cupy or numpy."""

    def kernel(self, file: str, name: str, **defines: int) -> Kernel:
        """Kernel `name` of cuda_src/`file`.cu, compiled with -DKEY=value for each define on first use."""

    def prepare(self, units: Iterable[Unit]) -> Callable[[], None]:
        """Start to compile kernel files with their defines in threads, ahead of calls of `kernel`.

        Returns a function that waits until all are compiled. Errors are raised by `kernel`, when the file is used.
        """

    def upload(self, array: Any) -> DeviceArray:
        """A copy of a NumPy array on the device."""

    def download(self, array: DeviceArray) -> np.ndarray:
        """A NumPy copy of a device array; waits for the work before it."""

    def uploads(self) -> Uploads:
        """Asynchronous copies to the device."""

    def address(self, array: DeviceArray) -> int:
        """Device address of an array's first element, for structs that hold pointers. Keep the array alive."""

    def planes(self, rows: int, columns: int, on_device: int) -> DeviceArray:
        """Zeros, float32 [rows, columns]; rows from `on_device` on are in host memory, which kernels access."""

    def host_room(self) -> int:
        """Bytes of host memory for rows of `planes`; 0 if rows on the host would not save device memory."""

    def synchronize(self) -> None:
        """Wait until the device has finished all queued work."""

    def timer(self) -> Timer:
        """A timer: `with backend.timer() as t: ...` and then `t.ms`."""

    def capture_graph(self, function: Callable[[], None]) -> Callable[[], None]:
        """The launches of `function` as one call that repeats them.

        Call `function` once before: compilation and loading on first use cannot be captured. Launches and `fill` are
        repeated with the same arrays, which the caller keeps alive, and scalars; other work is not. Values that vary
        must be in device memory.
        """

    def branch(self, launch: Callable[[], None], number: int = 0) -> Callable[[], None]:
        """Queue the launches of `launch` on a branch: after earlier work, concurrent with later work.

        Blocks of the branch have priority over blocks of later work. Returns a function that makes work queued after
        its call wait for the branch; call it before the next `branch` of this number.
        """

    def fill(self, array: DeviceArray, value: float) -> None:
        """Set all elements of an array, in the order of launches."""

    def memory(self) -> tuple[int, int]:
        """Free and total bytes of device memory."""

    def release_cached(self) -> None:
        """Free memory that is cached for later arrays; called after a MemoryError."""

    @property
    def peak_bytes(self) -> int:
        """Maximum memory allocated by this process, in bytes."""

    def describe(self) -> str:
        """Description of the device in one line."""


THREADS = 256  # of a block of `launch`


def ceil_div(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


def launch(backend: Backend, file: str, name: str, num_threads: int, *args: Any, rows: int = 1, **defines: int) -> None:
    """Launch a kernel on a grid of `num_threads` by `rows` threads; does nothing if `num_threads` is 0."""
    if num_threads:
        backend.kernel(file, name, **defines)((ceil_div(num_threads, THREADS), rows), (THREADS,), *args)


@dataclass(frozen=True)
class MemoryCost:
    """Device memory of buffers, stated by their owners. Costs can be added.

    Bytes: fixed, per pixel and tile of the largest view, per (splat, tile) pair, per splat.
    """

    fixed: float = 0
    per_pixel: float = 0
    per_tile: float = 0
    per_pair: float = 0
    per_splat: float = 0

    def __add__(self, other: MemoryCost) -> MemoryCost:
        mine, theirs = dataclasses.astuple(self), dataclasses.astuple(other)
        return MemoryCost(*(a + b for a, b in zip(mine, theirs, strict=True)))
