"""Lock of a folder: one process at a time writes into it."""

import os
import platform
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from splat_cli.errors import UsageError, escape_unprintable

LOCK_NAME = ".lock"
"""File in a locked folder; its text names the process that holds the lock."""
_MAX_HOLDER = 200  # characters


@contextmanager
def locked_folder(folder: Path, make: bool = False) -> Iterator[None]:
    """Holds the lock of a folder. The system releases the lock of a killed process, whose file may stay.

    make: the folder, where it is missing. UsageError where another process holds the lock, with its number and
    command, and where the folder cannot be written.
    """
    lock = _acquire(folder, make)
    path = folder / LOCK_NAME
    locked = path.stat()
    try:
        yield
    finally:
        with suppress(OSError):  # the folder may have been removed, and made and locked by others since
            if os.path.samestat(locked, path.stat()):
                path.unlink()  # not on Windows, where releasing the lock does it
        lock.release()


def _acquire(folder: Path, make: bool) -> FileLock:
    path = folder / LOCK_NAME
    lock = FileLock(path, timeout=0, thread_local=False)
    while True:
        try:
            if make:
                folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
            _write_holder(path)
            return lock
        except Timeout:
            if path.exists():
                raise UsageError(f"{folder} is in use by {_holder(path)}: wait until it ends, or stop it") from None
        except FileNotFoundError as error:
            lock.release()
            if not make:
                raise unwritable(folder, error) from None
        except OSError as error:
            lock.release()
            raise unwritable(folder, error) from None
        # its holder has just removed the folder, or the lock's file


def unwritable(folder: Path, error: OSError) -> UsageError:
    """What to raise where a folder cannot be made or written."""
    return UsageError(f"{folder} cannot be written: {error.strerror or error}; name another folder")


def _write_holder(path: Path) -> None:
    """Number, computer and command of this process, as far as the disk takes them. FileNotFoundError."""
    command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    text = f" process {os.getpid()} on {platform.node() or 'this computer'}: {command}"
    try:
        path.write_bytes(text.encode(errors="replace"))
    except FileNotFoundError:
        raise
    except OSError:  # the lock holds without it
        return


def _holder(path: Path) -> str:
    """The process that holds the lock, as far as its file tells."""
    try:
        with path.open("rb") as file:
            file.seek(1)  # Windows lets nobody else read a locked byte, which is the first
            text = file.read(4 * _MAX_HOLDER).decode(errors="replace")[:_MAX_HOLDER].strip()
    except OSError:
        text = ""
    return f"another process ({escape_unprintable(text)})" if text else "another process"
