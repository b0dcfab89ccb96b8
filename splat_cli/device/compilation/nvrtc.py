"""Compilation of kernels for any GPU on any machine, and their resource usage."""

import functools
import hashlib
import itertools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from splat_cli.device.compilation.sources import source_folders
from splat_cli.errors import DeviceError

_VALUES = {"BATCH": 2}  # values of defines; all others are 1
_NO_CACHE_SINCE = (12, 9)  # first version of NVRTC with the option -no-cache
ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)  # Turing, Ampere, Ampere, Ada, Hopper, Blackwell, Blackwell


@dataclass(frozen=True)
class Resources:
    """Resources of a kernel on an architecture: registers per thread; shared memory, stack and spills in bytes.

    `ptx` is the SHA-256 of the PTX of its file: the same for sources that differ in comments only.
    """

    file: str
    defines: str
    kernel: str
    arch: int
    registers: int
    shared: int
    stack: int
    spills: int
    ptx: str


def why_no_nvrtc() -> str:
    """Reason why NVRTC cannot be used, with advice; empty if it can. Needs no GPU or driver."""
    try:
        _nvrtc().getVersion()
    except (ImportError, OSError, RuntimeError) as error:
        return f"{error} (pip install 'splat-cli[nvrtc]')"
    return ""


@functools.cache
def _nvrtc() -> Any:
    from cupy.cuda import nvrtc

    return nvrtc


def variants(path: Path) -> list[dict[str, int]]:
    """All combinations of the defines that a kernel file tests with #ifdef or #elif defined; the empty one first.

    Includes defines of headers that the file itself includes, but not of headers further down: there would be too many
    combinations. Leaves out the compilers' own. LENS and RADIAL_DISTORTION exclude each other.
    """
    folders = source_folders(path.parent)
    texts = [path.read_text(encoding="utf-8")]
    for name in re.findall(r'^#include "(.+)"', texts[0], re.MULTILINE):
        texts.append(next(f / name for f in folders if (f / name).is_file()).read_text(encoding="utf-8"))
    tested = re.findall(r"^#(?:ifdef |elif defined\()(\w+)", "\n".join(texts), re.MULTILINE)
    names = [name for name in dict.fromkeys(tested) if name not in ("SPLAT_CPU", "__CUDA_ARCH__")]
    subsets = itertools.chain.from_iterable(itertools.combinations(names, n) for n in range(len(names) + 1))
    chosen = (subset for subset in subsets if not {"LENS", "RADIAL_DISTORTION"} <= set(subset))
    return [{name: _VALUES.get(name, 1) for name in subset} for subset in chosen]


def kernel_resources(path: Path, arch: int, **defines: int) -> list[Resources]:
    """Compile kernel file `path` for sm_`arch` (75, 80, ...) as the CUDA backend does, and report on its kernels.

    Raises DeviceError with NVRTC's messages.
    """
    folders = (f"-I{folder}" for folder in source_folders(path.parent))
    options = ("-std=c++17", "-ftz=true", f"-arch=sm_{arch}", "-Xptxas=-v", *folders)
    options += tuple(f"-D{key}={value}" for key, value in defines.items())
    nvrtc = _nvrtc()
    if nvrtc.getVersion() >= _NO_CACHE_SINCE:  # cached kernels would not be compiled and reported
        options += ("-no-cache",)
    program = nvrtc.createProgram(path.read_text(encoding="utf-8"), path.name, (), ())
    try:
        nvrtc.compileProgram(program, options)
    except nvrtc.NVRTCError as error:
        raise DeviceError(f"NVRTC cannot compile {path.name} for sm_{arch}:\n{nvrtc.getProgramLog(program)}") from error
    else:
        ptx = hashlib.sha256(nvrtc.getPTX(program)).hexdigest()
        return _parse_log(path.stem, " ".join(defines), arch, nvrtc.getProgramLog(program), ptx)
    finally:
        nvrtc.destroyProgram(program)


def _parse_log(file: str, defines: str, arch: int, log: str, ptx: str) -> list[Resources]:
    rows = []
    for section in re.split(r"(?=Compiling entry function)", log)[1:]:
        kernel = re.findall(r"Compiling entry function '(\w+)'", section)[0]
        stack, stores, loads = map(
            int, re.findall(r"(\d+) bytes (?:stack frame|spill stores|spill loads)", section)[:3]
        )
        registers = int(re.findall(r"Used (\d+) registers", section)[0])
        shared = sum(map(int, re.findall(r"(\d+) bytes smem", section)))
        rows.append(Resources(file, defines, kernel, arch, registers, shared, stack, stores + loads, ptx))
    return rows
