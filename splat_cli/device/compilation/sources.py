"""Kernel files and their headers: the complete source text of a compiled kernel."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from splat_cli.device.arguments import Parameter, parse_kernels
from splat_cli.errors import DeviceError
from splat_cli.io.paths import resource_dir

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)


@dataclass(frozen=True)
class KernelSource:
    """One kernel file: its text and the parameters of its kernels by name."""

    path: Path
    text: str
    kernels: dict[str, tuple[Parameter, ...]]

    def parameters(self, kernel: str) -> tuple[Parameter, ...]:
        """The parameters of `kernel`; DeviceError if the file has no such kernel."""
        if kernel not in self.kernels:
            raise DeviceError(f"{self.path.name} has no kernel {kernel}; it has {', '.join(self.kernels) or 'none'}")
        return self.kernels[kernel]

    def cpu_unit(self) -> str:
        """The C++ source text of a library of all kernels for the CPU."""
        exports = "".join(f"SPLAT_CPU_EXPORT({name})\n" for name in self.kernels)
        line = f'#line 1 "{self.path.as_posix()}"'
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
    return KernelSource(path, text, parse_kernels(text))


def headers_digest(text: str, folders: Sequence[Path]) -> str:
    """SHA-256 of all headers that `text` includes, directly or not, searched in `folders`.

    Conditions around #include are ignored.
    """
    headers: dict[Path, bytes] = {}
    _collect(text, tuple(folders), headers)
    digest = hashlib.sha256()
    for path, content in sorted(headers.items()):
        digest.update(str(path).encode() + b"\0" + content + b"\0")
    return digest.hexdigest()


def _collect(text: str, folders: tuple[Path, ...], headers: dict[Path, bytes]) -> None:
    for name in _INCLUDE.findall(text):
        path = next((folder / name for folder in folders if (folder / name).is_file()), None)
        if path is not None and (path := path.resolve()) not in headers:
            headers[path] = path.read_bytes()
            _collect(headers[path].decode(), (path.parent, *folders), headers)
