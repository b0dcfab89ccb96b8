"""The process that decodes a LAS or LAZ file: `lazrs` aborts the process on some damaged files.

`main` is called with the path as the argument. On standard output, it writes a JSON object, `{"points": N, "noise": M}`
or `{"error": TEXT}`, in a line, then positions float64 [N, 3] and colours uint8 [N, 3]. M points were left out.
"""

import json
import sys
from pathlib import Path

import numpy as np

from splat_cli.errors import reason_of
from splat_cli.io.archives import max_unpacked_bytes
from splat_cli.processes.child_process import end_with_parent, limit_memory

GREY = 128
_MEMORY = 1 << 30
_MEMORY_PER_BYTE = 8
"""Memory limit of reading: a base, and a factor of the bytes of all points; positions alone take up to 2."""
_NOISE = (7, 18)  # low and high noise, of the ASPRS standard's classes


def main() -> None:
    """Decode the file of the argument."""
    end_with_parent()
    path = Path(sys.argv[1])
    try:
        positions, colors, num_noise = _read(path)
    except Exception as error:  # damaged files raise many types
        _write(json.dumps({"error": reason_of(error)}).encode())
        return
    _write(json.dumps({"points": len(positions), "noise": num_noise}).encode())
    _write(positions.data, colors.data, end=b"")


def _write(*parts: bytes | memoryview, end: bytes = b"\n") -> None:
    for part in (*parts, end):
        sys.stdout.buffer.write(part)
    sys.stdout.buffer.flush()


def _read(path: Path) -> tuple[np.ndarray, np.ndarray, int]:
    """Positions float64 [N, 3] in the file's coordinates; colours uint8 [N, 3] of 8 or 16 bits, grey without any.

    Without points that are classified as noise or withheld, and the number of these.
    """
    import laspy

    _check_records(path)
    with laspy.open(path) as reader:
        header = reader.header
        num_points, length = header.point_count, header.point_format.size
        plain = path.stat().st_size - header.offset_to_point_data
        limit = max_unpacked_bytes(path) if header.are_points_compressed else plain
        if num_points * length > limit:
            raise ValueError(f"{num_points:,} points of {length} bytes are more than it can hold")
        limit_memory(_MEMORY + _MEMORY_PER_BYTE * num_points * length)
        points = reader.read()
    is_noise = np.isin(points.classification, _NOISE) | (np.asarray(points.withheld) != 0)
    points = points[~is_noise]
    positions = np.stack([points.x, points.y, points.z], axis=1, dtype=np.float64)
    names = set(points.point_format.dimension_names)
    colors = np.full((len(positions), 3), GREY, np.uint8)
    if {"red", "green", "blue"} <= names and len(positions):
        levels = np.stack([points.red, points.green, points.blue], axis=1)
        colors = (levels >> 8 if levels.max() > 255 else levels).astype(np.uint8)
    return np.ascontiguousarray(positions), colors, int(is_noise.sum())


def _check_records(path: Path) -> None:
    """ValueError if the header declares more variable-length records than the file holds: laspy would read endlessly.

    Their numbers are at byte 100 and, from LAS 1.4 on, at byte 243; records take at least 54 and 60 bytes.
    """
    with path.open("rb") as file:
        head = file.read(247)
    extended = int.from_bytes(head[243:247], "little") if head[25:26] >= b"\x04" else 0
    if 54 * int.from_bytes(head[100:104], "little") + 60 * extended > path.stat().st_size:
        raise ValueError("it lists more records than it can hold")
