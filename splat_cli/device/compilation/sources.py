"""Kernel files and their headers: the complete source text of a compiled kernel."""

from __future__ import annotations

import hashlib
import queue
import re
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from splat_cli.device.arguments import Parameter, parse_kernels
from splat_cli.device.backend import Unit
from splat_cli.errors import DeviceError
from splat_cli.io.files import resource_dir

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)


@dataclass(frozen=True)
class KernelSource:
    """One kernel file: its path, also relative to its source folder, its text, and its kernels' parameters by name."""

    path: Path
    name: str
    text: str
    kernels: dict[str, tuple[Parameter, ...]]

    def parameters(self, kernel: str) -> tuple[Parameter, ...]:
        """The parameters of `kernel`; DeviceError if the file has no such kernel."""
        if kernel not in self.kernels:
            raise DeviceError(f"{self.path.name} has no kernel {kernel}; it has {', '.join(self.kernels) or 'none'}")
        return self.kernels[kernel]

    def cuda_unit(self, defines: Mapping[str, int], headers: str) -> str:
        """The source text of a module of all kernels for a GPU, with its defines and the digest of its headers."""
        macros = "".join(f"#define {key} {value}\n" for key, value in sorted(defines.items()))
        return f'// headers: {headers}\n{macros}#line 1 "{self.path.as_posix()}"\n{self.text}'

    def cpu_unit(self) -> str:
        """The C++ source text of a library of all kernels for the CPU; the same in each copy of the source folder."""
        exports = "".join(f"SPLAT_CPU_EXPORT({name})\n" for name in self.kernels)
        line = f'#line 1 "{self.name}"'
        return f'#include "cpu/shim.h"\n{line}\n{self.text}\n#include "cpu/launch.h"\n{exports}'


def source_folders(further: Path | None) -> tuple[Path, ...]:
    """Folders to search for kernel files and headers: first `further`, if given, then cuda_src."""
    return (*([further] if further else []), resource_dir("cuda_src"))


def read_source(folders: Sequence[Path], file: str) -> KernelSource:
    """Kernel file `file`.cu from the first folder that contains it; DeviceError if no folder does."""
    paths = [folder / f"{file}.cu" for folder in folders]
    path = next(filter(Path.is_file, paths), None)
    if path is None:
        raise DeviceError(f"no kernel file {' or '.join(map(str, paths))}")
    text = path.read_text(encoding="utf-8")
    return KernelSource(path, f"{file}.cu", text, parse_kernels(text))


def headers_digest(text: str, folders: Sequence[Path]) -> str:
    """SHA-256 of all headers that `text` includes, directly or not, searched in `folders`.

    Conditions around #include are ignored. Names count as they are included: copies of a folder have the same digest.
    """
    headers: dict[Path, bytes] = {}
    digest = hashlib.sha256()
    for name, path in _includes(text, tuple(folders), headers):
        digest.update(name.encode() + b"\0" + headers[path] + b"\0")
    return digest.hexdigest()


def _includes(text: str, folders: tuple[Path, ...], headers: dict[Path, bytes]) -> Iterator[tuple[str, Path]]:
    """Names and paths of all headers in the order of their first #include; adds their contents to `headers`."""
    for name in _INCLUDE.findall(text):
        path = next((folder / name for folder in folders if (folder / name).is_file()), None)
        if path is not None and (path := path.resolve()) not in headers:
            headers[path] = path.read_bytes()
            yield name, path
            yield from _includes(headers[path].decode(), (path.parent, *folders), headers)


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
