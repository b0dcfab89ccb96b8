"""Creation of a scene's folder: locked and marked until complete, cleared after an interrupted attempt."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from splat_cli.errors import UsageError

_MARKER = ".unfinished"
_CONTENTS = ("images", "sparse", "database.db", "database.db-shm", "database.db-wal")


@contextmanager
def new_scene_folder(scene: Path) -> Iterator[None]:
    """Makes the folder; removes it after an error. What a killed program left in it is removed first.

    UsageError where `scene` is something else than an empty folder, cannot be written, or another process fills it.
    """
    try:
        scene.mkdir(parents=True, exist_ok=True)
        handle = os.open(scene, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise UsageError(f"{scene} cannot be written: {error.strerror or error}; name another folder") from None
    try:
        _lock(handle, scene)
        _remove_unfinished(scene)
        (scene / _MARKER).touch()
        try:
            yield
        except BaseException:
            shutil.rmtree(scene, ignore_errors=True)
            raise
        (scene / _MARKER).unlink()
    finally:
        os.close(handle)


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
