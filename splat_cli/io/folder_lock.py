"""Locks: one process at a time writes into a folder, as long as it is not moved, or changes a file."""

import errno
import os
import platform
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from splat_cli.errors import SplatError, UsageError, escape_unprintable

LOCK_NAME = ".lock"
"""File in a locked folder; its text names the process that holds the lock."""
_LOCKED_BYTES = 1
"""Bytes at the start of the file. On Windows, only the handle that locked them can read or write them."""
_MAX_HOLDER = 200  # characters
_REFRESH_INTERVAL = 10.0  # seconds between two changes of the file's time
_POLL = 0.5  # seconds
_ATTEMPTS = 100
"""Number of attempts to make and lock a folder while others remove it."""
_CHANGE = 5.0  # seconds that others may need to change a small file
_LOST = 120.0  # seconds without a change, after which the holder counts as lost; shared storage shows changes late


_held: list[tuple[Path, os.stat_result]] = []
"""Folders that this process has locked, absolute, and the files of their locks."""


class FolderInUse(UsageError):
    """Another process holds the lock of the folder."""


class FolderLost(SplatError):
    """A folder that this process has locked was moved, removed or replaced. No handler of disk errors may catch it."""


@contextmanager
def locked_folder(folder: Path, make: bool = False) -> Iterator[None]:
    """Hold the lock of a folder. The system releases the lock of a killed process, whose file may stay.

    make: create the folder if it is missing; it is removed if an error leaves it empty. FolderInUse if another process
    holds the lock, with its number and command, UsageError if the folder cannot be written.
    """
    missing = [path for path in (folder, *folder.parents) if make and not path.exists()]
    lock = _acquire(folder, make)
    path = folder / LOCK_NAME
    locked = path.stat()
    held = folder.absolute(), locked
    _held.append(held)
    released = threading.Event()
    threading.Thread(target=_refresh_mtime, args=(path, locked, released), daemon=True).start()
    try:
        yield
    except BaseException:
        if _is_own(path, locked):
            _remove_empty(missing)  # while the lock is held
        raise
    finally:
        released.set()
        with suppress(OSError):
            if _is_own(path, locked):
                path.unlink()  # not on Windows, where releasing the lock removes it
        _held.remove(held)
        lock.release()


@contextmanager
def locked_file(path: Path) -> Iterator[None]:
    """Hold a lock while a small file is read, changed and replaced: otherwise the changes of two processes may mix.

    Waits for other processes. Continues without a lock if it cannot create one, for example in a read-only folder.
    FolderLost as `require_held`.
    """
    require_held(path)
    lock = FileLock(path.with_name(f".{path.name}.lock.part"), timeout=_CHANGE, thread_local=False)
    with suppress(OSError):  # includes Timeout, of a disk that keeps the lock of a killed process
        if path.parent.is_dir():  # `acquire` would create it
            lock.acquire()
    try:
        yield
    finally:
        if lock.is_locked:
            with suppress(OSError):
                Path(lock.lock_file).unlink()  # not on Windows, where releasing the lock removes it
            lock.release()


def require_held(path: Path) -> None:
    """FolderLost if `path` is in a folder that this process has locked, but the lock there is no longer its own.

    Called before every write, because a moved folder must not be created again, and a new folder at its path belongs to
    others. OSError if the lock cannot be checked.
    """
    path = path.absolute()
    for folder, locked in list(_held):
        if path.is_relative_to(folder) and not _is_own(folder / LOCK_NAME, locked):
            raise FolderLost(
                f"{folder} was moved, removed or replaced while this process wrote into it, or its {LOCK_NAME} was "
                "removed: nothing more is written there; if it was moved, continue in its new place"
            )


def _is_own(path: Path, locked: os.stat_result) -> bool:
    """Whether a lock's file is the one that this process has locked, which stays open, so its number is unique."""
    try:
        return os.path.samestat(locked, path.stat())
    except (FileNotFoundError, NotADirectoryError):
        return False


def wait_until_unlocked(
    folder: Path, patience: float, is_cancelled: Callable[[], bool], say: Callable[[str], None]
) -> None:
    """Wait up to `patience` seconds until no process holds the lock of a folder; calls `say` once with the holder.

    A lock held by another computer is removed if its file is no longer refreshed: that computer is lost, and the shared
    storage may never release its lock.
    """
    path, start = folder / LOCK_NAME, time.monotonic()
    seen, since = 0, start
    while path.exists() and time.monotonic() - start < patience and not is_cancelled():
        try:
            with locked_folder(folder):
                return
        except FolderInUse:
            if not seen:
                say(f"waits for {_holder(path)} to release {folder}")
        with suppress(FileNotFoundError, PermissionError):  # Windows removes no file that is open
            changed = path.stat().st_mtime_ns
            if changed != seen:
                seen, since = changed, time.monotonic()
            elif time.monotonic() - since > _LOST and f" on {_computer()}:" not in _holder(path):
                path.unlink()
        time.sleep(_POLL)


def _refresh_mtime(path: Path, locked: os.stat_result, released: threading.Event) -> None:
    """Update the modification time of the lock's file at intervals: a heartbeat for processes on other computers."""
    while not released.wait(_REFRESH_INTERVAL):
        with suppress(OSError):
            if _is_own(path, locked):
                os.utime(path)


def _acquire(folder: Path, make: bool) -> FileLock:
    path = folder / LOCK_NAME
    lock = FileLock(path, timeout=0, thread_local=False)
    missing = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    for _ in range(_ATTEMPTS):
        try:
            if make:
                folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
            if _pid_without_flock(path) is None:  # that text shows others whether its process has ended
                _write_holder(path)
            return lock
        except Timeout:
            if path.exists():
                raise FolderInUse(f"{folder} is in use by {_in_use(path)}") from None
        except FileNotFoundError as error:
            lock.release()
            if not make:
                raise unwritable(folder, error) from None
        except OSError as error:
            lock.release()
            raise unwritable(folder, error) from None
        # the holder has just removed the folder or the lock's file
    raise unwritable(folder, missing)  # for example in /proc


def _remove_empty(folders: Sequence[Path]) -> None:
    """Remove the folders that this program created, innermost first, if they contain only the lock."""
    for folder in folders:
        with suppress(OSError):
            if {found.name for found in folder.iterdir()} == {LOCK_NAME}:
                (folder / LOCK_NAME).unlink()
            folder.rmdir()


def unwritable(folder: Path, error: OSError) -> UsageError:
    """The exception for a folder that cannot be made or written."""
    return UsageError(f"{folder} cannot be written: {error.strerror or error}; name another folder")


def _write_holder(path: Path) -> None:
    """Write number, computer and command of this process, unless the disk is full. FileNotFoundError."""
    command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    text = f"process {os.getpid()} on {_computer()}: {command}"
    try:
        with path.open("r+b", buffering=0) as file:
            file.seek(_LOCKED_BYTES)
            file.truncate()
            file.write(text.encode(errors="replace"))
    except FileNotFoundError:
        raise
    except OSError:  # the lock works without it
        return


def _computer() -> str:
    return platform.node() or "this computer"


def _in_use(path: Path) -> str:
    """The holder of a lock, and what to do."""
    pid = _pid_without_flock(path)
    if pid is not None:  # the file stays after its process was killed
        return f"process {pid}: wait until it ends, or stop it; if it has ended on all computers, remove {path}"
    return f"{_holder(path)}: wait until it ends, or stop it"


def _pid_without_flock(path: Path) -> int | None:
    """The process in a lock's file on a disk without flock, where filelock writes its number first; otherwise None."""
    try:
        first = path.read_bytes().split(b"\n", 1)[0]
    except OSError:
        return None
    return int(first) if first.isdigit() else None


def _holder(path: Path) -> str:
    """The process that holds the lock, as recorded in its file."""
    try:
        with path.open("rb") as file:
            file.seek(_LOCKED_BYTES)
            text = file.read(4 * _MAX_HOLDER).decode(errors="replace")[:_MAX_HOLDER].strip()
    except OSError:
        text = ""
    return f"another process ({escape_unprintable(text)})" if text.startswith("process ") else "another process"
