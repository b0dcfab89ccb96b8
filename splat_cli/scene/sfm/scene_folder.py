"""Creation of a scene's folder: locked and marked until complete, kept after an interruption."""

import json
import shutil
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path

from splat_cli.errors import DiskError, UsageError, quoted
from splat_cli.io.files import is_leftover, remove_leftovers, replacing
from splat_cli.io.folder_lock import LOCK_NAME, locked_folder
from splat_cli.io.json_input import parse_json, read_json_text
from splat_cli.scene.colmap import UNREGISTERED
from splat_cli.scene.sfm.colmap_worker import CONFIRMED, DATABASE, MODELS, SEPARATE

_MARKER, _RECORD = ".unfinished", "sfm.json"
_DATABASES = (DATABASE, SEPARATE, CONFIRMED)
_CONTENTS = (
    "images",
    "masks",
    "sparse",
    *(f"{name}{end}" for name in _DATABASES for end in ("", "-shm", "-wal")),
    *(Path(name).with_suffix(MODELS).name for name in _DATABASES),
    UNREGISTERED,
)


@contextmanager
def new_scene_folder(scene: Path, record: Mapping[str, object]) -> Iterator[None]:
    """Create the folder for `record`; removed if photographs make no scene (UsageError), kept after other errors.

    Features and matches of hours survive a full disk, a crash of COLMAP and Ctrl-C: contents of such a call are kept if
    its record is equal, else removed. UsageError if `scene` is not an empty folder, cannot be written, or is locked by
    another process.
    """
    with locked_folder(scene, make=True):
        remove_leftovers(scene)
        if _read(scene / _MARKER) != record:
            _remove_unfinished(scene)
            with replacing(scene / _MARKER) as temporary:
                temporary.write_text(json.dumps(record))
        try:
            yield
        except UsageError as error:
            if not isinstance(error, DiskError):
                _remove(scene, {_MARKER, *_CONTENTS})
            raise
        (scene / _MARKER).rename(scene / _RECORD)


def is_made_of(scene: Path, record: Mapping[str, object]) -> bool:
    """Whether the folder contains the finished scene of `record`."""
    return _read(scene / _RECORD) == record


def has_files_of(scene: Path, record: Mapping[str, object]) -> bool:
    """Whether the folder contains the finished scene of the photographs or video of `record`, with any options."""
    made = _read(scene / _RECORD)
    return isinstance(made, dict) and made.get("files") == record["files"]


def can_be_made(scene: Path, record: Mapping[str, object]) -> bool:
    """Whether the folder is missing or empty, or belongs to an interrupted command with the same record."""
    return not scene.exists() or _read(scene / _MARKER) == record or (scene.is_dir() and not _names(scene))


def _read(path: Path) -> object:
    """JSON content of a file; None if it cannot be read."""
    try:
        return parse_json(read_json_text(path))
    except (OSError, ValueError):
        return None


def _names(scene: Path) -> set[str]:
    """Names of the entries of the folder, except its lock and temporary files."""
    return {path.name for path in scene.iterdir() if not is_leftover(path)} - {LOCK_NAME}


def _remove_unfinished(scene: Path) -> None:
    found = _names(scene)
    if _RECORD in found:  # perhaps by a call that was interrupted while it printed the result
        raise UsageError(
            f"{scene} holds a finished scene: `splat train {quoted(scene)}` uses it; or name another folder"
        )
    if found and not (_MARKER in found and found <= {_MARKER, *_CONTENTS}):
        raise UsageError(f"{scene} is not an empty folder: name another one for the scene, or remove it first")
    _remove(scene, found - {_MARKER})


def _remove(scene: Path, names: Set[str]) -> None:
    """Remove entries of the folder, if they exist; other files in it belong to the user."""
    for path in (scene / name for name in names):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
