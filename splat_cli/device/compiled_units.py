"""Compiled kernel files. Each is compiled once, on first use or before it in threads."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Generic, TypeVar

from splat_cli.device.backend import Unit

T = TypeVar("T")


class CompiledUnits(Generic[T]):
    """Results of `compile` by file and defines; thread-safe."""

    def __init__(self, compile: Callable[[str, dict[str, int]], T]) -> None:
        self._compile = compile
        self._lock = threading.Lock()
        self._units: dict[tuple, Future[T]] = {}

    def get(self, file: str, defines: Mapping[str, int]) -> T:
        """The compiled unit; waits if another thread is compiling it.

        Raises the exceptions of `compile`; the next call tries again.
        """
        key = (file, *sorted(defines.items()))
        with self._lock:
            is_new = key not in self._units
            future = self._units.setdefault(key, Future())
        if is_new:
            try:
                future.set_result(self._compile(file, dict(defines)))
            except BaseException as error:
                with self._lock:
                    del self._units[key]
                future.set_exception(error)
        return future.result()

    def prepare(
        self, units: Iterable[Unit], num_threads: int, enter: Callable[[], object] = lambda: None
    ) -> Callable[[], None]:
        """Start to compile `units` in daemon threads, as long as this object lives; `get` raises their errors.

        enter: called first in each thread. Returns a function that waits for all of them.
        """
        waiting: queue.SimpleQueue[Unit] = queue.SimpleQueue()
        for unit in units:
            waiting.put(unit)

        owner = weakref.ref(self)

        def work() -> None:
            enter()
            while units := owner():
                try:
                    units.get(*waiting.get_nowait())
                except queue.Empty:
                    return
                except Exception:  # raised again in the thread that needs the unit
                    pass
                del units

        names = [f"compiler {k}" for k in range(min(num_threads, waiting.qsize()))]
        threads = [threading.Thread(target=work, name=name, daemon=True) for name in names]
        for thread in threads:
            thread.start()

        def wait() -> None:
            for thread in threads:
                thread.join()

        return wait
