"""COLMAP models in zip files: extraction of the model's files, limited by the length of the archive."""

import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from splat_cli.archives import check_member, max_unpacked_bytes, open_zip, unzip_error
from splat_cli.errors import ZIP_ERRORS
from splat_cli.scene.colmap import FILES

_NAMES = {f"{stem}{suffix}" for stem in FILES for suffix in (".bin", ".txt")}
_CHUNK = 1 << 20


def find_zip(root: Path) -> Path | None:
    """The first zip file in `root` that contains a model; damaged ones are skipped."""
    for path in filter(Path.is_file, sorted(root.glob("*.zip"))):
        try:
            with open_zip(path) as archive:
                if {PurePosixPath(name).name for name in archive.namelist()} & _NAMES:
                    return path
        except ZIP_ERRORS:
            continue
    return None


@contextmanager
def unzipped_model(path: Path) -> Iterator[Path]:
    """Yield a temporary folder with the model's files. SceneError if the archive is damaged or a zip bomb."""
    with tempfile.TemporaryDirectory(prefix="splat-") as folder:
        try:
            with open_zip(path) as archive:
                for member in _members(archive, max_unpacked_bytes(path)):
                    _unpack(archive, member, Path(folder) / PurePosixPath(member.filename).name)
        except ZIP_ERRORS as error:
            raise unzip_error(path, Path(folder), error) from error
        yield Path(folder)


def _members(archive: zipfile.ZipFile, limit: int) -> list[zipfile.ZipInfo]:
    """Files of the model in the first folder of the archive that has any (`sparse/0` before `sparse/1`).

    ValueError if they unpack to more than `limit` bytes in total, or one is duplicated.
    """
    found = [member for member in archive.infolist() if PurePosixPath(member.filename).name in _NAMES]
    folder = min(PurePosixPath(member.filename).parent for member in found)
    found = [member for member in found if PurePosixPath(member.filename).parent == folder]
    names = Counter(PurePosixPath(member.filename).name for member in found)
    if repeated := [name for name, count in names.items() if count > 1]:
        raise ValueError(f"{repeated[0]} is in it {names[repeated[0]]} times")
    if (size := sum(member.file_size for member in found)) > limit:
        raise ValueError(f"it would unpack to {size:,} bytes, {limit:,} at most are unpacked")
    for member in found:
        check_member(member)
    return found


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    left = member.file_size
    with archive.open(member) as source, target.open("wb") as out:
        while chunk := source.read(min(_CHUNK, left + 1)):
            left -= len(chunk)
            if left < 0:
                raise ValueError(f"{target.name} is longer than it says")
            out.write(chunk)
