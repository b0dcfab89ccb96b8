"""Locks of output folders: one process at a time writes into a folder."""

import fcntl
import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from splat_cli.errors import UsageError
from splat_cli.files import is_leftover, remove_leftovers
from splat_cli.run.storage.find_run import is_run, open_run
from splat_cli.run.storage.run_dir import RunDir


@contextmanager
def new_run_folder(path: Path) -> Iterator[RunDir]:
    """Makes and locks `path` for a new run, checks that it can be written, removes it if an error leaves it empty.

    Raises UsageError where it cannot be made or written, or already holds something. A run that was killed before it
    had read its scene counts as nothing.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    with _locked(path, make=True):
        try:
            if is_run(path) or not all(is_leftover(found) or found.name == "cameras.json" for found in path.iterdir()):
                raise UsageError(f"{path} is not empty: name another folder, or remove it first")
            _check_writable(path)
            remove_leftovers(path)
            yield RunDir(path)
        except BaseException:
            _remove_empty(missing)  # as long as nobody else can have taken it
            raise


@contextmanager
def existing_run(path: Path) -> Iterator[RunDir]:
    """The run at `path`, locked to go on writing into it. UsageError where there is none, or another process has it."""
    run = open_run(path)
    with _locked(path):
        remove_leftovers(path)
        yield run


def unused_folder(path: Path) -> Path:
    """`path` if nothing is there yet, else the first of `path`-2, `path`-3, ... of which that is true."""
    return next(
        folder
        for folder in numbered_folders(path)
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    )


def numbered_folders(path: Path) -> Iterator[Path]:
    """`path`, `path`-2, `path`-3, ... without end."""
    yield path
    for number in itertools.count(2):
        yield path.with_name(f"{path.name}-{number}")


@contextmanager
def _locked(folder: Path, make: bool = False) -> Iterator[None]:
    """UsageError where another process is inside. The system drops the lock of a killed process.

    The lock is on the folder itself: there is no lock file to be left behind. make: the folder, where it is missing.
    """
    handle = _lock(folder, make)
    try:
        yield
    finally:
        os.close(handle)


def _lock(folder: Path, make: bool) -> int:
    """A handle of the folder, which has the lock until it is closed."""
    while True:
        handle = _open_folder(folder, make)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(handle, folder):
                return handle
        except OSError as error:
            os.close(handle)
            if isinstance(error, BlockingIOError):
                raise UsageError(f"{folder} is in use by another process: wait until it ends, or stop it") from None
            raise _unwritable(folder, error) from None
        os.close(handle)  # whoever had the lock has removed the folder


def _open_folder(folder: Path, make: bool) -> int:
    try:
        if make:
            folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise _unwritable(folder, error) from None


def _is_at(handle: int, folder: Path) -> bool:
    """Whether the open folder still lies there."""
    try:
        return os.path.samestat(os.fstat(handle), folder.stat())
    except FileNotFoundError:
        return False


def _check_writable(folder: Path) -> None:
    probe = folder / ".writable.part"
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise _unwritable(folder, error) from None


def _unwritable(folder: Path, error: OSError) -> UsageError:
    return UsageError(f"{folder} cannot be written: {error.strerror or error}; name another folder")


def _remove_empty(folders: Sequence[Path]) -> None:
    """Removes the folders that this program made, innermost first, as far as they are empty."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()
