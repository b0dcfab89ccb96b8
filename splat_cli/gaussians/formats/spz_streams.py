"""Container of .spz: header and byte streams of each property.

Versions 2 and 3 are one gzip stream of a 16-byte header and then property after property. Version 4 is a plain header
of 32 bytes, a table of compressed and uncompressed sizes as 64-bit integers, and a zstd stream for each property.
Extensions are records of type, number of bytes and content: at the end of the gzip stream, or before the table.
"""

import dataclasses
import gzip
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import zstandard

from splat_cli.errors import FormatError, reason_of
from splat_cli.gaussians.arrays import MAX_FILE_SH_DEGREE, splat_bytes
from splat_cli.gaussians.formats.spz_axes import stated_axes
from splat_cli.io.archives import max_unpacked_bytes

MAGIC = b"NGSP"
HEADER = struct.Struct("<4sIIBBBB")
"""Magic, version, splats, SH degree, bits of the fraction, flags; reserved, in version 4 the number of streams."""
ANTIALIASED, EXTENDED = 1, 2
"""Bits of the flags."""
_END_OF_HEADER = 32
_MAX_RECORDS = 1 << 16  # bytes of extensions that are read
_TABLE_OFFSET = struct.Struct("<I")
_SIZES = struct.Struct("<QQ")
_CHUNK = 1 << 20
_ZSTD_LEVEL = 12


@dataclass(frozen=True)
class SpzHeader:
    """Header of N splats; coordinates are fixed-point numbers with `fraction_bits` fractional bits."""

    version: int
    num_splats: int
    sh_degree: int
    fraction_bits: int
    antialiased: bool
    extended: bool = True
    axes: str | None = None
    """As the file states them."""

    @property
    def widths(self) -> tuple[int, ...]:
        """Bytes per splat of position, opacity, colour, scale, quaternion, higher SH coefficients."""
        return 9, 1, 3, 3, 3 if self.version == 2 else 4, 3 * ((self.sh_degree + 1) ** 2 - 1)


def pack_streams(header: SpzHeader, columns: Sequence[np.ndarray], records: bytes) -> bytes:
    """The content of a file of version 3 or 4: the properties, N rows each in the order of `widths`, and extensions."""
    flags = EXTENDED | ANTIALIASED * header.antialiased
    fields = (MAGIC, header.version, header.num_splats, header.sh_degree, header.fraction_bits, flags)
    parts = [column.tobytes() for column, width in zip(columns, header.widths, strict=True) if width]
    if header.version == 3:
        return gzip.compress(HEADER.pack(*fields, 0) + b"".join(parts) + records, compresslevel=6, mtime=0)
    streams = [zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(part) for part in parts]
    table = [_SIZES.pack(len(stream), len(part)) for stream, part in zip(streams, parts, strict=True)]
    offset = _TABLE_OFFSET.pack(_END_OF_HEADER + len(records))
    start = (HEADER.pack(*fields, len(parts)) + offset).ljust(_END_OF_HEADER, b"\0")
    return b"".join((start, records, *table, *streams))


def read_streams(path: Path) -> tuple[SpzHeader, list[np.ndarray]]:
    """(header, uint8 [N, width] of each property). FormatError if the file is damaged or of another version."""
    try:
        with path.open("rb") as file:
            is_plain = file.read(len(MAGIC)) == MAGIC
            file.seek(0)
            return _read_zstd(path, file) if is_plain else _read_gzip(path, file)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise FormatError(
            f"{path} cannot be read as .spz ({reason_of(error)}): give a whole file of version 2 to 4"
        ) from error


def _read_gzip(path: Path, compressed: BinaryIO) -> tuple[SpzHeader, list[np.ndarray]]:
    with gzip.open(compressed) as file:
        header = _read_header(path, file.read(HEADER.size), versions=(2, 3))
        sizes = [width * header.num_splats for width in header.widths]
        data = np.empty(sum(sizes), np.uint8)
        end = 0
        while chunk := file.read(min(_CHUNK, len(data) - end)):  # a single `read` takes twice the memory
            data[end : end + len(chunk)] = np.frombuffer(chunk, np.uint8)
            end += len(chunk)
        records = file.read(_MAX_RECORDS) if header.extended else b""
    if end < len(data):
        raise FormatError(f"{path} declares {len(data)} bytes of splats and holds {end}: export it again")
    header = dataclasses.replace(header, axes=stated_axes(records))
    columns = np.split(data, np.cumsum(sizes)[:-1])
    return header, [column.reshape(header.num_splats, w) for column, w in zip(columns, header.widths, strict=True)]


def _read_zstd(path: Path, file: BinaryIO) -> tuple[SpzHeader, list[np.ndarray]]:
    header = _read_header(path, file.read(HEADER.size), versions=(4,))
    widths = [width for width in header.widths if width]
    (offset,) = _take(file, _TABLE_OFFSET)
    file.seek(_END_OF_HEADER)
    records = file.read(min(max(offset - _END_OF_HEADER, 0), _MAX_RECORDS)) if header.extended else b""
    header = dataclasses.replace(header, axes=stated_axes(records))
    file.seek(offset)
    sizes = [_take(file, _SIZES) for _ in widths]
    if [size for _, size in sizes] != [width * header.num_splats for width in widths]:
        raise FormatError(f"{path} has streams that do not fit its {header.num_splats} splats; export it again")
    columns = []
    for (packed, unpacked), width in zip(sizes, widths, strict=True):
        data = _unpack_zstd(path, file.read(min(packed, path.stat().st_size)), unpacked)
        columns.append(np.frombuffer(data, np.uint8).reshape(header.num_splats, width))
    return header, columns if header.sh_degree else [*columns, np.zeros((header.num_splats, 0), np.uint8)]


def _take(file: BinaryIO, layout: struct.Struct) -> tuple[int, ...]:
    """The next values. EOFError at the end of the file."""
    content = file.read(layout.size)
    if len(content) < layout.size:
        raise EOFError("it ends too early")
    return layout.unpack(content)


def _unpack_zstd(path: Path, data: bytes, size: int) -> bytes:
    if size == 0:
        return b""
    try:
        if zstandard.get_frame_parameters(data).content_size != size:
            raise FormatError(f"{path} has a stream of other than the declared {size} bytes; export it again")
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=size)
    except zstandard.ZstdError as error:
        raise FormatError(f"{path} cannot be read as .spz ({error}): it is damaged; export it again") from error


def _read_header(path: Path, content: bytes, versions: tuple[int, ...]) -> SpzHeader:
    if len(content) < HEADER.size or not content.startswith(MAGIC):
        raise FormatError(f"{path} is not an .spz file: its header is missing; export it again")
    _, version, n, degree, bits, flags, _ = HEADER.unpack(content)
    if version not in versions:
        raise FormatError(f"{path} has .spz version {version}, expected 2 to 4; export it as one of these")
    if degree > MAX_FILE_SH_DEGREE or bits > 23:
        raise FormatError(
            f"{path} has SH degree {degree} and {bits} bits of fraction: expected at most degree {MAX_FILE_SH_DEGREE} "
            "and 23 bits; export it again"
        )
    if n * splat_bytes(degree) > max_unpacked_bytes(path):
        raise FormatError(f"{path} declares {n} splats, too many for {path.stat().st_size} bytes; export it again")
    return SpzHeader(version, n, degree, bits, bool(flags & ANTIALIASED), bool(flags & EXTENDED))
