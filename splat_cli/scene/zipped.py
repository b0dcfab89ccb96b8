"""Scenes in zip files, including photographs: unpacking, limited by the length of the archive."""

import errno
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath

from splat_cli.errors import ZIP_ERRORS
from splat_cli.io.archives import check_member, max_unpacked_bytes, open_zip, unzip_error
from splat_cli.io.image_files import PHOTOGRAPH_SUFFIXES
from splat_cli.scene.formats import has_dataset

_SUFFIXES = (".zip", ".r3d")
_JUNK = ("__MACOSX", "Thumbs.db", "desktop.ini")
_MAX_FILES = 200_000


def is_zipped_scene(path: Path) -> bool:
    """Whether `path` is a zip file that holds photographs; a COLMAP model alone is only a part of a scene."""
    if path.suffix.lower() not in _SUFFIXES or not path.is_file():
        return False
    try:
        with open_zip(path) as archive:
            return any(name.lower().endswith(PHOTOGRAPH_SUFFIXES) for name in archive.namelist())
    except ZIP_ERRORS:
        return True  # the user means a scene; unpacking will report the damage


def unzip_scene(path: Path, folder: Path, complete: Callable[[Path], object] = lambda scene: None) -> None:
    """Unpack into `folder`, new or empty, by a final rename: an interruption leaves nothing there.

    complete: called with the unpacked folder before it gets its name. FileExistsError if another process was first.
    Outer folders that hold only another folder are left out. SceneError if the archive is
    damaged, leads out of the folder or grows beyond what archives.py allows.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".splat-", dir=folder.parent) as temporary:
        inside = Path(temporary) / "scene"
        _unpack(path, inside)
        scene = _scene_in(inside)
        complete(scene)
        try:
            scene.rename(folder)
        except OSError as error:
            if folder.exists():  # the folder is not empty: the error depends on the system
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder)) from error
            raise


@contextmanager
def unzipped_scene(path: Path) -> Iterator[Path]:
    """Context with a temporary folder that holds the unpacked scene."""
    with tempfile.TemporaryDirectory(prefix="splat-") as folder:
        unzip_scene(path, Path(folder) / "scene")
        yield Path(folder) / "scene"


def _scene_in(folder: Path) -> Path:
    """The folder with the scene: the first on the way down that is a dataset, or holds more than one other folder."""
    while not has_dataset(folder):
        found = [entry for entry in folder.iterdir() if entry.name not in _JUNK and not entry.name.startswith(".")]
        if len(found) != 1 or not found[0].is_dir():
            break
        folder = found[0]
    return folder


def _unpack(path: Path, folder: Path) -> None:
    try:
        with open_zip(path) as archive:
            members = [member for member in archive.infolist() if not member.filename.endswith(("/", "\\"))]
            _check(members, max_unpacked_bytes(path))
            folder.mkdir()
            for member in members:
                target = folder / _path_of(member)
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, target.open("xb") as out:
                    shutil.copyfileobj(source, out)
    except ZIP_ERRORS as error:
        raise unzip_error(path, folder.parent, error) from error


def _check(members: list[zipfile.ZipInfo], limit: int) -> None:
    """ValueError if the members are too many or too large, or one leads out of the folder."""
    if not members or len(members) > _MAX_FILES:
        raise ValueError(f"it holds {len(members):,} files, expected 1 to {_MAX_FILES:,}")
    if (size := sum(member.file_size for member in members)) > limit:
        raise ValueError(f"it would unpack to {size:,} bytes; the maximum is {limit:,}")
    for member in members:
        check_member(member)
        name = _path_of(member)
        if name.is_absolute() or ".." in name.parts or PureWindowsPath(name).drive or not name.parts:
            raise ValueError(f"the file {member.filename!a} leads out of it")


def _path_of(member: zipfile.ZipInfo) -> PurePosixPath:
    """The path of a file, also if it has backslashes, as from older Windows programs."""
    return PurePosixPath(member.filename.replace("\\", "/"))
