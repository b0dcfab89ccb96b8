"""Niantic's .spz: writes versions 3 and 4, reads versions 2 to 4.

Positions are fixed-point numbers of 24 bits; the header states the number of fractional bits. Everything else is
bytes. From version 3 on, a quaternion is its three smallest components in 32 bits; in version 2 its x, y and z in a
byte each.

Versions 2 and 3 are one gzip stream: a 16-byte header, then property after property. Version 4 is a plain header
of 32 bytes, a table of compressed and uncompressed sizes as 64-bit integers, and a zstd stream for each property.
Extensions are records of type, number of bytes and content: at the end of the gzip stream, or before the table.

Niantic stores axes right, up, back (RUB). Other programs may use the axes of a PLY: right, down, forward (RDF).
The extension SPZ_ADOBE_coordinate_system (type 0xADBE0003, https://github.com/nianticlabs/spz/pull/82) states them: a
record of type, number of bytes and an index into AXES, each 32 bits.
"""

import dataclasses
import gzip
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import numpy as np
import zstandard

from splat_cli.errors import FormatError, reason_of
from splat_cli.gaussians.arrays import MAX_FILE_SH_DEGREE, MAX_SH_DEGREE, SplatArrays, splat_bytes
from splat_cli.gaussians.editing.move import flipped, rotated
from splat_cli.gaussians.formats.quantize import (
    from_smallest_three,
    logits_from_bytes,
    opacity_bytes,
    smallest_three,
    to_bytes,
    unit_quats,
    unpack_in_blocks,
)
from splat_cli.gaussians.ply import finite_splats
from splat_cli.io.archives import max_unpacked_bytes
from splat_cli.io.files import regular, replacing

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
AXES = (
    "",
    *["LDB", "RDB", "LUB", "RUB", "LDF", "RDF", "LUF", "RUF", "LFD", "RFD", "LFU", "RFU", "LBD", "RBD", "LBU", "RBU"],
)
"""Directions of x, y and z: left or right, down or up, back or forward. The first is unspecified, for RUB."""
_AS_STORED = {"LFD": "LBU", "RFD": "RBU", "LBU": "LFD", "RBU": "RFD"}
"""The axes that Niantic's library actually stores for four of these systems (measured with @adobe/spz 0.2.3)."""
_COORDINATE_SYSTEM = 0xADBE0003
_RECORD = struct.Struct("<II")
_VALUE = struct.Struct("<I")
_SIGNS = {"R": 1, "L": -1, "D": 1, "U": -1, "F": 1, "B": -1}
_Y_TO_FORWARD = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])
"""Rotation that maps y to the z axis of a PLY, and z to its -y axis."""
_LARGEST = 2**23
_MIN_LOG_SCALE, _MAX_LOG_SCALE = -10.0, 5.9375
_COLOR_SCALE = 0.15
_SH_STEPS = np.array([2] * 3 + [4] * 12)[:, None]
"""Bits to which coefficients are rounded, so that gzip finds repetition: 7 in the first band and 6 in the others.

Niantic's own writer keeps 5 and 4: a loss of 0.6 dB instead of 0.1, for files two thirds as large.
"""


def write_spz(path: Path, splats: SplatArrays, axes: str = "RUB") -> None:
    """Write a file; positions have as many fractional bits as the largest coordinate allows.

    Clips coordinates to 2^23 units, SH coefficients to -1..1, log scales to -10..5.9. axes: RUB or RDF; the file
    states them. RUB is written as version 3, which all programs read; RDF as version 4, because Niantic's library reads
    the axes only there.
    """
    with replacing(path) as temporary:
        temporary.write_bytes(spz_content(splats, axes, axes_record(axes)))


def spz_content(splats: SplatArrays, axes: str = "RUB", records: bytes = b"") -> bytes:
    """Content of a file (see `write_spz`) with these extensions."""
    splats = from_ply_axes(splats, axes)
    n, k = splats.shN.shape[:2]
    bits = _fraction_bits(splats.means)
    fixed = np.clip(np.rint(splats.means * 2.0**bits), -_LARGEST, _LARGEST - 1).astype("<i4", order="C")
    steps = _SH_STEPS[:k]
    header = SpzHeader(3 if axes == "RUB" else 4, n, splats.sh_degree, bits, splats.antialiased, bool(records))
    columns = (
        fixed.view(np.uint8).reshape(n, 3, 4)[:, :, :3],  # the low three bytes
        opacity_bytes(splats),
        to_bytes(255 * (0.5 + _COLOR_SCALE * splats.sh0.astype(np.float64))),
        to_bytes(16 * (splats.log_scales.astype(np.float64) - _MIN_LOG_SCALE)),
        _pack_quats(splats.quats),
        to_bytes(np.rint(128 * (1 + np.clip(splats.shN, -2, 2)) / steps) * steps),
    )
    return pack_streams(header, columns, records)


def num_cut(splats: SplatArrays) -> int:
    """Number of splats that are too far from the origin, too large or too small for the format."""
    longest = splats.log_scales.max(axis=1, initial=-np.inf)
    is_outside = (longest < _MIN_LOG_SCALE) | (longest > _MAX_LOG_SCALE)
    return int((is_outside | (np.abs(splats.means) > _LARGEST).any(axis=1)).sum())


def steps(splats: SplatArrays) -> np.ndarray:
    """Distance [N] between neighbouring coordinates in the file, world units."""
    return np.full(len(splats), 2.0 ** -_fraction_bits(splats.means))


def read_spz(path: Path, axes: str = "RUB", content: bytes | None = None) -> SplatArrays:
    """Read versions 2 to 4; SH coefficients of degree 4 are dropped. FormatError if damaged or of another version.

    content: of the .spz, if it is only a part of the file `path`.
    """
    header, streams = read_streams(path, content)
    streams[-1] = streams[-1][:, : 3 * ((MAX_SH_DEGREE + 1) ** 2 - 1)]  # colour channels vary fastest
    k = streams[-1].shape[1] // 3

    def unpack(rows: slice) -> SplatArrays:
        positions, alphas, colors, scales, quats, sh = (stream[rows] for stream in streams)
        stored = SplatArrays(
            means=_unpack_fixed(positions, header.fraction_bits),
            log_scales=scales.astype(np.float32) / 16 + _MIN_LOG_SCALE,
            quats=_unpack_quats(quats),
            logit_opacities=logits_from_bytes(alphas[:, 0]),
            sh0=(colors.astype(np.float32) / 255 - 0.5) / np.float32(_COLOR_SCALE),
            shN=(sh.reshape(len(sh), k, 3).astype(np.float32) - 128) / 128,
        )
        return to_ply_axes(stored, header.axes or axes)

    splats = finite_splats(unpack_in_blocks(header.num_splats, k, unpack, header.antialiased))
    if header.sh_degree > MAX_SH_DEGREE:
        splats.dropped_sh_degree = header.sh_degree
    return splats


def stated_axes_of(path: Path) -> str | None:
    """The axes that the file states, of AXES, or None. Raises FormatError."""
    return read_streams(path)[0].axes


def _fraction_bits(means: np.ndarray) -> int:
    """Maximum number of fractional bits with which the largest coordinate fits into 24 bits."""
    largest = float(np.abs(means).max(initial=1e-3))
    return int(np.clip(np.floor(np.log2((_LARGEST - 1) / largest)), 0, 23))


def _unpack_fixed(positions: np.ndarray, bits: int) -> np.ndarray:
    """Coordinates float32 [N, 3] of bytes [N, 9]."""
    wide = np.zeros((len(positions), 3, 4), np.uint8)
    wide[:, :, 1:] = positions.reshape(-1, 3, 3)  # in the upper bytes: the shift extends the sign
    return ((wide.view("<i4")[:, :, 0] >> 8) / 2.0**bits).astype(np.float32)


def _pack_quats(quats: np.ndarray) -> np.ndarray:
    """Words [N] of quaternions wxyz [N, 4]: index of the largest in x y z w, and three times a sign and 9 bits."""
    word, three = smallest_three(np.roll(unit_quats(quats), -1, axis=1))
    for column in three.T:
        word = word << 10 | (column < 0).astype(np.uint32) << 9 | np.rint(511 * np.abs(column)).astype(np.uint32)
    return word.astype("<u4")


def _unpack_quats(content: np.ndarray) -> np.ndarray:
    """Quaternions wxyz float32 [N, 4] of bytes [N, 4] (from version 3 on) or [N, 3] (version 2)."""
    if content.shape[1] == 3:
        xyz = content / np.float32(127.5) - 1
        quats = np.concatenate([xyz, np.sqrt(np.maximum(0, 1 - (xyz**2).sum(1, keepdims=True)))], 1)
    else:
        word = np.ascontiguousarray(content).view("<u4")[:, 0]
        fields = word[:, None] >> np.array([20, 10, 0], np.uint32)
        three = np.where(fields >> 9 & 1, -1.0, 1.0) * (fields & 511) / 511
        quats = from_smallest_three(word >> 30, three)
    return np.roll(quats, 1, axis=1).astype(np.float32)


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
    """Their name, as the file states them."""

    @property
    def widths(self) -> tuple[int, ...]:
        """Bytes per splat of position, opacity, colour, scale, quaternion, higher SH coefficients."""
        return 9, 1, 3, 3, 3 if self.version == 2 else 4, 3 * ((self.sh_degree + 1) ** 2 - 1)


def pack_streams(header: SpzHeader, columns: Sequence[np.ndarray], records: bytes) -> bytes:
    """The content of a file of version 3 or 4: the properties, N rows each in the order of `widths`, and extensions."""
    flags = EXTENDED * header.extended | ANTIALIASED * header.antialiased
    fields = (MAGIC, header.version, header.num_splats, header.sh_degree, header.fraction_bits, flags)
    parts = [column.tobytes() for column, width in zip(columns, header.widths, strict=True) if width]
    if header.version == 3:
        return gzip.compress(HEADER.pack(*fields, 0) + b"".join(parts) + records, compresslevel=6, mtime=0)
    streams = [zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(part) for part in parts]
    table = [_SIZES.pack(len(stream), len(part)) for stream, part in zip(streams, parts, strict=True)]
    offset = _TABLE_OFFSET.pack(_END_OF_HEADER + len(records))
    start = (HEADER.pack(*fields, len(parts)) + offset).ljust(_END_OF_HEADER, b"\0")
    return b"".join((start, records, *table, *streams))


def read_streams(path: Path, content: bytes | None = None) -> tuple[SpzHeader, list[np.ndarray]]:
    """(header, uint8 [N, width] of each property). FormatError if the file is damaged or of another version.

    content: see `read_spz`.
    """
    try:
        with regular(path).open("rb") if content is None else BytesIO(content) as file:
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
    if flags & ~(ANTIALIASED | EXTENDED):  # such as 128, by which Spark's levels of detail are in one file
        raise FormatError(f"{path} has flags {flags}, of which only 1 and 2 are known: export it without extras")
    if n * splat_bytes(degree) > max_unpacked_bytes(path):
        raise FormatError(f"{path} declares {n} splats, too many for {path.stat().st_size} bytes; export it again")
    return SpzHeader(version, n, degree, bits, bool(flags & ANTIALIASED), bool(flags & EXTENDED))


def axes_record(axes: str) -> bytes:
    """The record that states the axes."""
    return _RECORD.pack(_COORDINATE_SYSTEM, _VALUE.size) + _VALUE.pack(AXES.index(axes))


def stated_axes(records: bytes) -> str | None:
    """The axes that a file's records state, or None. ValueError if the records are damaged."""
    found = None
    while records:
        if len(records) < _RECORD.size:
            raise ValueError("an extension is truncated")
        kind, size = _RECORD.unpack_from(records)
        content, records = records[_RECORD.size : _RECORD.size + size], records[_RECORD.size + size :]
        if len(content) < size:
            raise ValueError("an extension is truncated")
        if kind == _COORDINATE_SYSTEM:
            if size != _VALUE.size or (code := _VALUE.unpack(content)[0]) >= len(AXES):
                raise ValueError("an unknown coordinate system")
            found = AXES[code] or "RUB"
    return found


def to_ply_axes(splats: SplatArrays, axes: str) -> SplatArrays:
    """The splats, given in `axes`, converted to the axes of a PLY."""
    axes = _AS_STORED.get(axes, axes)
    x, y, z = (_SIGNS[letter] for letter in axes)
    if axes[1] in "DU":
        return flipped(splats, (x, y, z))
    return rotated(flipped(splats, (x, y, -z)), _Y_TO_FORWARD)


def from_ply_axes(splats: SplatArrays, axes: str) -> SplatArrays:
    """The splats, given in the axes of a PLY, converted to `axes`, RUB or RDF."""
    return to_ply_axes(splats, axes)  # flips are their own inverse
