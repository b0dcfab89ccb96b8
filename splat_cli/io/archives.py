"""Zip archives from untrusted sources: members are checked before unpacking; .npz files without pickles.

The unpacked size is limited relative to the size of the file; docs/formats.md states the limits.
"""

import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from splat_cli.errors import DiskError, SceneError, SplatError, reason_of
from splat_cli.io.files import is_full, regular

MAX_EXPANSION = 32
"""Unpacked bytes per byte of the file. A splat takes at least 14 bytes in .spz and .sog, 56 to 236 unpacked."""
MIN_ALLOWANCE = 16 << 20
"""Unpacked bytes that even the smallest file may have."""
_MAX_DIRECTORY_BYTES = 4 << 20
"""Limit of a zip file's list of members: about 40,000. zipfile needs 10 times as much memory for them."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def max_unpacked_bytes(path: Path) -> int:
    """Limit of the unpacked size, in bytes."""
    return max(MIN_ALLOWANCE, MAX_EXPANSION * path.stat().st_size)


class _ZipReader(io.BufferedReader):
    """A file that limits the list of members, which zipfile reads in one call. Set `is_open` afterwards.

    error: of a read that failed. zipfile would say that the file is not a zip file.
    """

    is_open = False
    error: OSError | None = None

    def read(self, size: int | None = -1, /) -> bytes:
        if not self.is_open and size is not None and size > _MAX_DIRECTORY_BYTES:
            raise ValueError(f"its list of members has {size:,} bytes, more than the limit of {_MAX_DIRECTORY_BYTES:,}")
        try:
            return super().read(size)
        except OSError as error:
            self.error = error
            raise


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """The zip file for reading; ZIP_ERRORS if it is not a zip file or its list of members is too long."""
    with _ZipReader(io.FileIO(regular(path))) as file:
        try:
            archive = zipfile.ZipFile(file)
        except zipfile.BadZipFile as error:
            raise file.error or error from None
        with archive:
            file.is_open = True
            yield archive


def unzip_error(path: Path, folder: Path, error: Exception) -> SplatError:
    """The exception for one of ZIP_ERRORS while unpacking: DiskError if the disk is full, otherwise SceneError."""
    if is_full(error):
        return DiskError(f"not enough space in {folder} to unpack {path}: free some, or unpack it elsewhere")
    return SceneError(f"{path} cannot be unpacked ({reason_of(error)}): make the zip file again")


def read_member(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    """Content of the only member named `name`; ValueError if it is larger than `limit` bytes."""
    found = [member for member in archive.infolist() if member.filename == name]
    if len(found) != 1:
        raise ValueError(f"{len(found)} members are called {name!a}, expected one")
    check_member(found[0])
    if found[0].file_size > limit:
        raise ValueError(f"{name!a} would unpack to {found[0].file_size:,} bytes, more than the limit of {limit:,}")
    with archive.open(found[0]) as file:
        return file.read(limit + 1)[:limit]


def check_member(member: zipfile.ZipInfo) -> None:
    """ValueError for uncommon compression methods."""
    if member.compress_type not in _METHODS:
        raise ValueError(f"{member.filename!a} has compression method {member.compress_type}, not deflate or none")


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an uncompressed .npz file. ZIP_ERRORS if it is not one.

    Nothing is unpickled; memory is limited to the size of the file.
    """
    with open_zip(path) as archive:
        members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise ValueError("its arrays are compressed, expected an uncompressed .npz")
        if sum(member.file_size for member in members) > path.stat().st_size:
            raise ValueError("its arrays overlap")
        arrays = {}
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in arrays:
                raise ValueError(f"it holds {name!a} twice")
            arrays[name] = _array(archive.read(member), name)
        return arrays


def _array(content: bytes, name: str) -> np.ndarray:
    """Read-only array of a .npy file."""
    try:
        stream = io.BytesIO(content)
        version = np.lib.format.read_magic(stream)
        read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, fortran_order, dtype = read_header[version](stream)
        if dtype.hasobject or dtype.names is not None:
            raise ValueError(f"its dtype is {dtype}")
        array = np.frombuffer(content, dtype, offset=stream.tell())
        return array.reshape(shape, order="F" if fortran_order else "C")
    except Exception as error:  # NumPy evaluates the header as a Python literal, which can raise many types
        raise ValueError(f"{name!a} is not an array ({type(error).__name__})") from error
