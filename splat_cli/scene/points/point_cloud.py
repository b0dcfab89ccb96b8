"""Point clouds in PLY, LAS and LAZ files: positions and optional colours."""

from pathlib import Path

import numpy as np
import plyfile

from splat_cli.archives import max_unpacked_bytes
from splat_cli.errors import FormatError, UsageError, reason_of
from splat_cli.ply_header import MAX_HEADER_BYTES, check_header
from splat_cli.scene.dataset import Points

_GREY = 128
LAS_SUFFIXES = (".las", ".laz")
_LAS_MAGIC = b"LASF"
_OF_SPLATS = {b"scale_0", b"f_dc_0", b"packed_scale"}


def is_point_cloud(path: Path) -> bool:
    """Whether `path` is a LAS or LAZ file, or a PLY of points that are no splats, plain or compressed."""
    try:
        with path.open("rb") as file:
            head = file.read(MAX_HEADER_BYTES).split(b"end_header")[0]
    except OSError:
        return False
    if head.startswith(_LAS_MAGIC):
        return True
    names = {words[-1] for words in map(bytes.split, head.splitlines()) if words[:1] == [b"property"]}
    return head.startswith(b"ply") and {b"x", b"y", b"z"} <= names and not names & _OF_SPLATS


def read_point_cloud(path: Path) -> Points:
    """Vertices of a PLY of any encoding, or points of a LAS or LAZ file.

    FormatError where the file is damaged or holds no positions; UsageError where laspy is missing.
    """
    if path.suffix.lower() in LAS_SUFFIXES:
        return _read_las(path)
    check_header(path, "a point cloud")
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # beyond float32 or not a number: dropped later
            vertices = plyfile.PlyData.read(str(path))["vertex"].data
            columns = [vertices[name] for name in "xyz"]
            positions = np.stack(columns, axis=1, dtype=np.result_type(np.float32, *columns))
            colors = _colors(vertices)
    except (KeyError, ValueError) as error:
        raise FormatError(f"{path} is no point cloud: vertices need x, y and z ({error}); export it again") from error
    except (plyfile.PlyParseError, OverflowError, MemoryError) as error:
        raise FormatError(f"{path} is not a readable PLY ({error}); it is damaged: export it again") from error
    return Points(positions, colors)


def _colors(vertices: np.ndarray) -> np.ndarray:
    """uint8 [P, 3]; grey where the file has none. Floating-point colours go from 0 to 1."""
    names = vertices.dtype.names or ()
    for wanted in (("red", "green", "blue"), ("r", "g", "b")):
        if all(name in names for name in wanted):
            stacked = np.stack([vertices[name] for name in wanted], axis=1)
            if stacked.dtype.kind == "f":
                stacked = np.nan_to_num(stacked, nan=0.5) * 255
            return np.clip(stacked, 0, 255).astype(np.uint8)
    return np.full((len(vertices), 3), _GREY, np.uint8)


def _read_las(path: Path) -> Points:
    """Points of a LAS or LAZ file (ASPRS), in its own coordinates; colours of 8 or 16 bits, if it has any."""
    try:
        import laspy
    except ImportError:
        raise UsageError(f"{path} needs laspy: pip install 'splat-cli[las]'") from None
    try:
        _check_las_records(path)
        with laspy.open(path) as reader:
            num_points, length = reader.header.point_count, reader.header.point_format.size
            is_plain = path.suffix.lower() == ".las"
            limit = path.stat().st_size - reader.header.offset_to_point_data if is_plain else max_unpacked_bytes(path)
            if num_points * length > limit:
                raise ValueError(f"{num_points:,} points of {length} bytes are more than it can hold")
            points = reader.read()
        positions = np.stack([points.x, points.y, points.z], axis=1, dtype=np.float64)
        names = set(points.point_format.dimension_names)
        colors = np.full((len(positions), 3), _GREY, np.uint8)
        if {"red", "green", "blue"} <= names and len(positions):
            levels = np.stack([points.red, points.green, points.blue], axis=1)
            colors = (levels >> 8 if levels.max() > 255 else levels).astype(np.uint8)
    except OSError as error:
        raise FormatError(f"{path} cannot be read ({reason_of(error)})") from error
    except Exception as error:  # of many types, of damaged files
        raise FormatError(f"{path} is not a readable LAS file ({reason_of(error)}); export it again") from error
    return Points(positions, colors)


def _check_las_records(path: Path) -> None:
    """ValueError where the header promises more variable-length records than the file holds: laspy reads on forever.

    Their numbers stand at bytes 100 and, from LAS 1.4 on, 243; records take at least 54 and 60 bytes.
    """
    with path.open("rb") as file:
        head = file.read(247)
    extended = int.from_bytes(head[243:247], "little") if head[25:26] >= b"\x04" else 0
    if 54 * int.from_bytes(head[100:104], "little") + 60 * extended > path.stat().st_size:
        raise ValueError("it lists more records than it can hold")
