"""Compilation of kernel files to shared libraries by the host's C++ compiler, and its sanitizers.

Libraries are cached under a key of all their inputs. A kernel compiled with AddressSanitizer and UBSan reports the line
of accesses beyond an array, __shared__ memory or a local array, of uses after free, and of undefined arithmetic. To run
one, start Python with `sanitizer_environment` added to its environment, as scripts/checks/sanitized.py does, and open
the backend with `sanitize=True`.
"""

import atexit
import ctypes
import errno
import functools
import hashlib
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from splat_cli.device.compilation.kernel_cache import (
    add_library,
    build_folder,
    build_lock,
    is_intact,
    open_cache,
    unusable_cache,
)
from splat_cli.device.compilation.sources import headers_digest
from splat_cli.errors import DeviceError, escape_unprintable
from splat_cli.processes.child_process import NEW_SESSION

_IMPORTS = {
    "ucrtbase": "__acrt_iob_func __stdio_common_vfprintf abort fflush free malloc memcmp memcpy memmove memset "
    "acos acosf asin asinf atan atan2 atan2f atanf cbrt cbrtf ceil ceilf cos cosf cosh coshf erf erff exp exp2 exp2f "
    "expf expm1 expm1f floor floorf fma fmaf fmod fmodf log log10 log10f log1p log1pf log2 log2f logf pow powf "
    "rint rintf round roundf sin sinf sinh sinhf sqrt sqrtf tan tanf tanh tanhf trunc truncf",
    "kernel32": "AcquireSRWLockExclusive CloseHandle CreateSemaphoreA CreateThread ReleaseSRWLockExclusive "
    "ReleaseSemaphore VirtualAlloc WaitForSingleObject",
}
"""Functions that kernels and the runtime import from libraries of Windows 10 and later."""


def link_commands(built: Path, library: Path, has_entry: bool) -> list[list[str]]:
    """Commands that link an object file to a DLL on Windows; they write to its folder.

    has_entry: the library has a DllMain.
    """
    zig = [sys.executable, "-m", "ziglang"]
    commands, imports = [], []
    for name, functions in _IMPORTS.items():
        definition, archive = built.with_name(f"{name}.def"), built.with_name(f"{name}.lib")
        definition.write_text("\n".join([f"LIBRARY {name}.dll", "EXPORTS", *functions.split()]), encoding="utf-8")
        commands.append([*zig, "dlltool", "-m", "i386:x86-64", "-d", str(definition), "-l", str(archive)])
        imports.append(str(archive))
    entry = "/entry:DllMain" if has_entry else "/noentry"
    return [*commands, [*zig, "lld-link", "/dll", entry, f"/out:{library}", str(built), *imports]]


_running: set[subprocess.Popen[str]] = set()


def run_compiler(command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a compiler and wait for it, without the sanitizer libraries that this process may have preloaded.

    It runs in its own session, so Ctrl-C in the terminal reaches only this process. This process kills the compiler and
    its children when it exits. variables: added to the environment.
    """
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"} | variables
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        env=environment,
        **NEW_SESSION,
    )
    try:  # after a Ctrl-C before `communicate`, `with` would wait for the compiler
        _running.add(process)
        out, err = process.communicate()
    except BaseException:
        _kill(process)
        process.wait()
        raise
    finally:
        _running.discard(process)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill a compiler and its child processes."""
    with suppress(psutil.NoSuchProcess):
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()


@atexit.register
def _kill_all() -> None:
    """Kill compilers that still run when this process exits."""
    for process in tuple(_running):
        _kill(process)


# We avoid -ffast-math: it is slower here, and linking sets flush-to-zero for the whole process, including NumPy.
# Strict aliasing is off: kernels access arrays of floats as float4 and similar types, as CUDA allows.
_FLAGS = (
    "-std=c++17",
    "-fPIC",
    "-fvisibility=hidden",
    "-pthread",
    "-w",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-strict-aliasing",
    "-fno-exceptions",
)
_FAST = ("-O3", "-march=native")
# Null checks of every reference take most of the compile time, and AddressSanitizer stops at address 0 anyway.
_SANITIZED = (
    "-O1",
    "-g",
    "-march=native",
    "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined",
    "-fno-sanitize=null,vptr",
    "-fno-sanitize-recover=undefined",
)
_ZIG = (sys.executable, "-m", "ziglang", "c++")
# Unlike clang, zig adds debug information by default, which doubles the compile time.
_ZIG_FLAGS = ("-g0",)
# Variables for folders of temporary files, which zig would otherwise keep.
_FOLDERS = ("TMPDIR", "ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR")
_DISK_FULL = ("No space left on device", "NoSpaceLeft")
# Links without libraries: before its first link, `zig c++` spends a minute compiling its C++ library. Kernels do not
# need it. The functions of the C library that they call are loaded with Python.
_ZIG_LINKER = (sys.executable, "-m", "ziglang", "ld.lld", "-shared")
_IS_WINDOWS = sys.platform == "win32"
# Stack probes are off: they would call the C library in functions with large frames. Fibers' stacks need no probes.
_WINDOWS_FLAGS = ("-mno-stack-arg-probe",)


@functools.cache
def _processor() -> str:
    """Model and instruction sets of the processor; -march=native depends on them."""
    try:
        info = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    return "\n".join(dict.fromkeys(re.findall(r"^(?:model name|flags|Features|CPU part)\s*:.*$", info, re.MULTILINE)))


@dataclass(frozen=True)
class HostCompiler:
    """A C++ compiler: the command, the first line of its --version, and the flags of every unit.

    linker: command that links an object file to a shared library; empty: the compiler links.
    """

    command: tuple[str, ...]
    version: str
    flags: tuple[str, ...]
    linker: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Name and version for messages, such as "g++ 12.2"."""
        name = "clang" if "clang" in self.version else Path(self.command[0]).name
        number = re.search(r"\d+\.\d+", re.sub(r"\([^)]*\)", "", self.version))
        return f"{name} {number[0] if number else ''}".strip()

    def library(self, name: str, unit: str, include: tuple[Path, ...], defines: dict[str, int]) -> Path:
        """Path of the shared library of `unit` (C++ source text), compiled unless the cache has an intact copy.

        The cache's key covers everything that can change the result: the unit, the headers it includes, the compiler,
        the flags and the processor. Copies of this program in several folders or environments share libraries. Raises
        DeviceError with the compiler's messages.
        """
        flags = (*self.flags, *(f"-D{key}={value}" for key, value in sorted(defines.items())))
        key = hashlib.sha256()
        command = [part for part in self.command if part != sys.executable]  # which runs zig
        for text in (unit, headers_digest(unit, include), self.version, *command, *flags, _processor()):
            key.update(text.encode() + b"\0")
        name = name.replace("/", "-")  # "raster/blend"
        path = open_cache() / f"{name}-{key.hexdigest()[:32]}{'.dll' if _IS_WINDOWS else '.so'}"
        if is_intact(path):
            return path
        with build_lock(path):
            try:
                if not is_intact(path):
                    self._compile(path, name, unit, (*flags, *(f"-I{folder}" for folder in include)))
            except OSError as error:
                raise unusable_cache(error) from error
        return path

    def query(self, option: str) -> str:
        """Output of the compiler for an option such as -print-file-name=libasan.so."""
        return run_compiler([*self.command, option]).stdout.strip()

    def _compile(self, path: Path, name: str, unit: str, flags: tuple[str, ...]) -> None:
        with build_folder() as folder:
            source, library = folder / f"{name}.cpp", folder / "library.so"
            source.write_text(unit, encoding="utf-8")
            for command in self._commands(flags, source, library):
                result = run_compiler(command, LC_ALL="C", **dict.fromkeys(_FOLDERS, str(folder)))
                if result.returncode and any(words in result.stderr for words in _DISK_FULL):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                if result.returncode:
                    raise DeviceError(f"{self.label} cannot compile {name}:\n{result.stderr.strip()}")
            add_library(library, path)

    def _commands(self, flags: tuple[str, ...], source: Path, library: Path) -> list[list[str]]:
        """Commands that compile a source file to a shared library, in order."""
        if not self.linker:
            return [[*self.command, *flags, "-shared", str(source), "-o", str(library)]]
        built = source.with_suffix(".o")
        compilation = [*self.command, *flags, "-c", str(source), "-o", str(built)]
        if _IS_WINDOWS:
            return [compilation, *link_commands(built, library, has_entry=source.stem == "runtime")]
        return [compilation, [*self.linker, str(built), "-o", str(library)]]


def _candidates() -> list[tuple[str, ...]]:
    """Compiler commands to try. DeviceError if $CXX is not a valid command line."""
    if chosen := os.environ.get("CXX", "").strip():
        try:
            return [tuple(shlex.split(chosen))]
        except ValueError as error:
            raise DeviceError(
                f"CXX is {escape_unprintable(chosen)!r}, which is not a valid command line ({error}): correct it"
            ) from None
    zig = [_ZIG] if importlib.util.find_spec("ziglang") else []
    system: list[tuple[str, ...]] = [] if _IS_WINDOWS else [("g++",), ("clang++",), ("c++",)]
    return [*system, *zig]


def find_compiler(sanitize: bool = False, flags: tuple[str, ...] = ()) -> HostCompiler:
    """The compiler named by $CXX, otherwise the first of g++, clang++, c++ and the Python package ziglang.

    flags: added after the usual ones. Raises DeviceError if there is no compiler.
    """
    for command in _candidates():
        if command and shutil.which(command[0]):
            version = _version(command)
            chosen = (*_FLAGS, *_tls_flags(version), *(_SANITIZED if sanitize else _FAST))
            if command[: len(_ZIG)] == _ZIG:
                chosen = (*chosen, *_ZIG_FLAGS, *(_WINDOWS_FLAGS if _IS_WINDOWS else ()))
                return HostCompiler(command, version, (*chosen, *flags), _ZIG_LINKER)
            return HostCompiler(command, version, (*chosen, *flags))
    wanted = os.environ.get("CXX", "").strip() or "g++ or clang++"
    raise DeviceError(
        f"the CPU backend compiles its kernels and found no C++ compiler ({wanted}): "
        "install one with `pip install 'splat-cli[cpu]'` or `apt install g++`, or set CXX"
    )


@functools.cache
def _version(command: tuple[str, ...]) -> str:
    result = _zig_version() if command[: len(_ZIG)] == _ZIG else run_compiler([*command, "--version"])
    if result.returncode:
        message = result.stderr.strip() or f"exit status {result.returncode}"
        raise DeviceError(f"`{shlex.join(command)} --version` failed ({message}): set CXX to a C++ compiler")
    return result.stdout.partition("\n")[0]


def _zig_version() -> subprocess.CompletedProcess[str]:
    """Version of zig. Its files go to the cache: HOME, where it would write, may be missing or read-only."""
    open_cache()
    try:
        with build_folder() as folder:
            return run_compiler([*_ZIG, "--version"], **dict.fromkeys(_FOLDERS, str(folder)))
    except OSError as error:
        raise unusable_cache(error) from error


def _tls_flags(version: str) -> tuple[str, ...]:
    """Descriptor-based thread-local storage, for __shared__: the default on aarch64, an option of GCC on x86-64."""
    return ("-mtls-dialect=gnu2",) if platform.machine() == "x86_64" and "clang" not in version else ()


def sanitizer_environment(compiler: HostCompiler) -> dict[str, str]:
    """Variables for a process that loads sanitized kernels; DeviceError if the compiler has no sanitizer libraries.

    The libraries must be loaded first. Python's own allocator would hide errors within its arenas. Leaks are not
    reported, because the interpreter does not free all memory at its end.
    """
    names = ("libasan.so", "libubsan.so", "libstdc++.so")
    paths = [Path(compiler.query(f"-print-file-name={name}")) for name in names]
    if missing := [name for name, path in zip(names, paths, strict=True) if compiler.linker or not path.is_absolute()]:
        raise DeviceError(f"{compiler.label} has no {', '.join(missing)}: install GCC's sanitizer libraries")
    return {
        "LD_PRELOAD": " ".join(str(path.resolve()) for path in paths),
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


def check_preloaded() -> None:
    """DeviceError unless this process was started with the sanitizer libraries."""
    if not hasattr(ctypes.CDLL(None), "__asan_init"):
        raise DeviceError("sanitized kernels need the sanitizer libraries: start with scripts/checks/sanitized.py")
