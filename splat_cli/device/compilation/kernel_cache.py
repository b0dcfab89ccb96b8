"""Cache of compiled kernels: a private folder of the user, with a checksum at the end of every library."""

import ctypes
import hashlib
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import filelock

from splat_cli.errors import DeviceError, one_line, quoted
from splat_cli.io.files import flush

_DIGEST = 64  # bytes: SHA-256 in hexadecimal; loaders ignore bytes after the last section of a library
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_STALE_SECONDS = 3600.0  # a build folder of this age belongs to a process that was killed


def cache_dir() -> Path:
    """Folder of compiled kernels: $XDG_CACHE_HOME/splat, or ~/.cache/splat. DeviceError without a home folder."""
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "splat"
    try:
        return Path.home() / ".cache" / "splat"
    except RuntimeError:
        raise DeviceError("there is no home folder to keep compiled kernels in: set HOME or XDG_CACHE_HOME") from None


def open_cache() -> Path:
    """The cache's folder, created if missing.

    DeviceError if it cannot be created or others may write to it: its libraries run with the user's rights.
    """
    folder = cache_dir()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise unusable_cache(error) from error
    if not _is_trusted(found):
        found_as = f"owner {found.st_uid}, mode {found.st_mode & 0o777:o}"
        raise DeviceError(
            f"others may have written the compiled kernels in {folder} ({found_as}): "
            f"remove it with `rm -r {quoted(folder)}`, or set XDG_CACHE_HOME to a folder of your own"
        )
    return folder


def unusable_cache(error: OSError) -> DeviceError:
    """The exception for a cache that cannot be written."""
    return DeviceError(f"cannot keep compiled kernels in {cache_dir()} ({error.strerror}): set XDG_CACHE_HOME")


def is_intact(library: Path) -> bool:
    """Whether the library exists, belongs to the user, and ends with the checksum of its content."""
    try:
        with library.open("rb") as file:
            trusted, content = _is_trusted(os.fstat(file.fileno())), file.read()
    except OSError:
        return False
    return trusted and len(content) > _DIGEST and _digest(content[:-_DIGEST]) == content[-_DIGEST:]


def add_library(built: Path, path: Path) -> None:
    """Move a library from the build folder `built` to `path`, with its checksum. Raises OSError.

    Atomic: other processes may add the same library.
    """
    digest = _digest(built.read_bytes())
    built.chmod(0o700)  # independent of the umask
    with built.open("ab") as file:
        file.write(digest)
    flush(built)
    built.replace(path)


def load_library(path: Path) -> ctypes.CDLL:
    """The library, loaded into this process. DeviceError if the system refuses it, e.g. on a disk mounted noexec."""
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise DeviceError(
            f"compiled kernels cannot be loaded ({one_line(error)}): set XDG_CACHE_HOME to a folder on a disk that is "
            "not mounted noexec"
        ) from error


@contextmanager
def build_lock(path: Path) -> Iterator[None]:
    """Waits while another thread or process builds the library; does nothing where files cannot be locked."""
    lock = filelock.FileLock(path.with_suffix(".lock"))
    try:
        lock.acquire()
    except (OSError, NotImplementedError):  # a network disk, or a cache that cannot be written
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):  # fails on Windows, where `release` removes the file
            Path(lock.lock_file).unlink()
        lock.release()


@contextmanager
def build_folder() -> Iterator[Path]:
    """A temporary folder inside the cache; removes build folders of killed processes. Raises OSError."""
    for old in cache_dir().iterdir():
        with suppress(OSError):  # the process that made the folder may be removing it
            if old.is_dir() and time.time() - old.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(old)
    with tempfile.TemporaryDirectory(dir=cache_dir(), ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _is_trusted(found: os.stat_result) -> bool:
    """Whether only the user and the administrator can write to it. On Windows, a user's folder is private."""
    if sys.platform == "win32":
        return True
    return found.st_uid in (0, os.geteuid()) and not found.st_mode & _OTHERS_WRITE


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
