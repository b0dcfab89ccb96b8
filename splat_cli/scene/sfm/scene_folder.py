"""Creation of a scene's folder: locked and marked until complete, kept after an interruption."""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from splat_cli.errors import UsageError

_MARKER, _RECORD = ".unfinished", "sfm.json"
_CONTENTS = ("images", "sparse", "database.db", "database.db-shm", "database.db-wal")


@contextmanager
def new_scene_folder(scene: Path, record: Mapping[str, object]) -> Iterator[None]:
    """Makes the folder of what `record` describes; removes it after an error, keeps it after Ctrl-C.

    What an interrupted program left in it is kept where its record is equal, else removed. UsageError where `scene` is
    something else than an empty folder, cannot be written, or another process fills it.
    """
    try:
        scene.mkdir(parents=True, exist_ok=True)
        handle = os.open(scene, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise UsageError(f"{scene} cannot be written: {error.strerror or error}; name another folder") from None
    try:
        _lock(handle, scene)
        if _read(scene / _MARKER) != record:
            _remove_unfinished(scene)
            (scene / _MARKER).write_text(json.dumps(record))
        try:
            yield
        except Exception:
            shutil.rmtree(scene, ignore_errors=True)
            raise
        (scene / _MARKER).rename(scene / _RECORD)
    finally:
        os.close(handle)


def is_made_of(scene: Path, record: Mapping[str, object]) -> bool:
    """Whether the folder holds the finished scene of what `record` describes."""
    return _read(scene / _RECORD) == record


def can_be_made(scene: Path, record: Mapping[str, object]) -> bool:
    """Whether there is no such folder, or an empty one, or one interrupted while it was made of the same."""
    return not scene.exists() or _read(scene / _MARKER) == record or (scene.is_dir() and not any(scene.iterdir()))


def _read(path: Path) -> object:
    """The JSON in a file; None where there is none."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def _lock(handle: int, scene: Path) -> None:
    """On the folder itself; the system drops the lock of a killed process."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(f"{scene} is being made by another process: wait until it ends, or stop it") from None


def _remove_unfinished(scene: Path) -> None:
    found = {path.name for path in scene.iterdir()}
    if found and not (_MARKER in found and found <= {_MARKER, *_CONTENTS}):
        raise UsageError(f"{scene} is not an empty folder: name another one for the scene, or remove it first")
    for name in found - {_MARKER}:
        path = scene / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
