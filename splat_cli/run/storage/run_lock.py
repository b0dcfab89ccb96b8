"""Locks of run folders: only one process at a time writes to a folder."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from splat_cli.errors import UsageError
from splat_cli.io.files import is_leftover, remove_leftovers
from splat_cli.io.folder_lock import LOCK_NAME, locked_folder, unwritable
from splat_cli.run.storage.find_run import is_run, open_run, refuse_inside_run
from splat_cli.run.storage.run_dir import BEGUN, RunDir


@contextmanager
def new_run_folder(path: Path) -> Iterator[RunDir]:
    """Create and lock `path` for a new run; removed if an error leaves it empty.

    UsageError if it cannot be created or written, or is not empty. Files of a run that was killed before it began
    do not count.
    """
    with locked_folder(path, make=True):
        if is_run(path):
            raise UsageError(f"{path} holds a run: `splat train --resume {path}` continues it; or name another folder")
        require_free(path)
        refuse_inside_run(path)
        _check_writable(path)
        remove_leftovers(path)
        yield RunDir(path)


@contextmanager
def existing_run(path: Path) -> Iterator[RunDir]:
    """The run at `path`, locked for writing. UsageError if no run is there, or another process has locked it."""
    run = open_run(path)
    with locked_folder(path):
        remove_leftovers(path)
        yield run


def unused_folder(path: Path) -> Path:
    """`path`, or the first of `path`-2, `path`-3, ... that does not exist."""
    return next(
        folder
        for folder in numbered_folders(path)
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    )


def numbered_folders(path: Path) -> Iterator[Path]:
    """Yields `path`, `path`-2, `path`-3, ... without end."""
    yield path
    for number in itertools.count(2):
        yield path.with_name(f"{path.name}-{number}")


def require_free(path: Path) -> None:
    """UsageError if a folder holds more than files of a run that was killed before it began."""
    begun = BEGUN if (path / BEGUN[0]).is_file() else ()
    if not all(is_leftover(entry) or entry.name in (LOCK_NAME, *begun) for entry in path.iterdir()):
        raise UsageError(f"{path} holds other files: name another folder, or an empty one")


def _check_writable(folder: Path) -> None:
    probe = folder / ".writable.part"
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise unwritable(folder, error) from None
