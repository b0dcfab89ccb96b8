"""COLMAP models in zip files: only the model's own files are unpacked, none larger than it says."""

import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from splat_cli.errors import ZIP_ERRORS, SceneError
from splat_cli.scene.colmap import FILES

_NAMES = {f"{stem}{suffix}" for stem in FILES for suffix in (".bin", ".txt")}
_MAX_RATIO = 50  # of unpacked to packed bytes; models reach about 4
_CHUNK = 1 << 20


def find_zip(root: Path) -> Path | None:
    """The first zip file in `root` that holds a model; broken ones are passed over."""
    for path in sorted(root.glob("*.zip")):
        try:
            with zipfile.ZipFile(path) as archive:
                if {PurePosixPath(name).name for name in archive.namelist()} & _NAMES:
                    return path
        except ZIP_ERRORS:
            continue
    return None


@contextmanager
def unzipped_model(path: Path) -> Iterator[Path]:
    """Yields a temporary folder with the model's files. SceneError where the archive is damaged or a bomb."""
    with tempfile.TemporaryDirectory(prefix="splat-") as folder:
        try:
            with zipfile.ZipFile(path) as archive:
                for member in _members(archive):
                    _unpack(archive, member, Path(folder) / PurePosixPath(member.filename).name)
        except ZIP_ERRORS as error:
            raise SceneError(f"{path} cannot be unpacked ({error}): make the zip file again") from error
        yield Path(folder)


def _members(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """The model's files, of the first folder in the archive that holds any (`sparse/0` comes before `sparse/1`)."""
    found = [member for member in archive.infolist() if PurePosixPath(member.filename).name in _NAMES]
    folder = min(PurePosixPath(member.filename).parent for member in found)
    return [member for member in found if PurePosixPath(member.filename).parent == folder]


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    if member.file_size > _MAX_RATIO * max(member.compress_size, 1024):
        raise ValueError(f"{target.name} would grow to {member.file_size:,} bytes")
    left = member.file_size
    with archive.open(member) as source, target.open("wb") as out:
        while chunk := source.read(min(_CHUNK, left + 1)):
            left -= len(chunk)
            if left < 0:
                raise ValueError(f"{target.name} is longer than it says")
            out.write(chunk)
