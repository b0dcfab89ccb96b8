"""Asynchronous copies to a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np


class Uploads(Protocol):
    """Copies that overlap with a backend's work."""

    def stage(self, array: np.ndarray) -> np.ndarray:
        """Copy of an array in memory suited to fast transfer; callable in any thread."""

    def put(self, staged: np.ndarray) -> Any:
        """Start a copy of a staged array; returns the device array, usable after `join`.

        It may be dropped after all work that reads it.
        """

    def join(self) -> None:
        """Make later work of the backend wait for the copies so far."""

    def mark(self) -> Callable[[], None]:
        """A function that waits for the work queued before this call, but not for later work."""


class CpuUploads:
    """No copies: arrays are in main memory."""

    def stage(self, array: np.ndarray) -> np.ndarray:
        """See Uploads.stage."""
        return np.ascontiguousarray(array)

    def put(self, staged: np.ndarray) -> np.ndarray:
        """See Uploads.put."""
        return staged

    def join(self) -> None:
        """See Uploads.join."""

    def mark(self) -> Callable[[], None]:
        """See Uploads.mark."""
        return lambda: None


class CudaUploads:
    """Copies from page-locked memory on a separate stream."""

    def __init__(self, xp: Any, stream: Any) -> None:
        """xp: cupy. stream: of the backend's other work."""
        self._xp, self._main = xp, stream
        self._own = xp.cuda.Stream(non_blocking=True)
        self._copying: list[np.ndarray] = []
        self._joined: Any = None

    def stage(self, array: np.ndarray) -> np.ndarray:
        """See Uploads.stage."""
        from cupyx import empty_pinned

        staged = empty_pinned(array.shape, array.dtype)
        staged[...] = array
        return staged

    def put(self, staged: np.ndarray) -> Any:
        """See Uploads.put."""
        if self._joined is not None:  # what was being copied then has arrived by now, and may be dropped
            self._joined.synchronize()
            self._joined = None
            self._copying.clear()
        with self._own:  # memory of its own pool: given back, it is taken again by later copies alone
            target = self._xp.empty(staged.shape, staged.dtype)
        target.data.copy_from_host_async(staged.ctypes.data, staged.nbytes, self._own)
        self._copying.append(staged)
        return target

    def join(self) -> None:
        """See Uploads.join."""
        self._joined = self._own.record()
        self._main.wait_event(self._joined)

    def mark(self) -> Callable[[], None]:
        """See Uploads.mark."""
        return self._main.record(self._xp.cuda.Event(disable_timing=True)).synchronize
