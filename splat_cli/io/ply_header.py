"""PLY headers: checks before memory is allocated, number of elements, comments; ranges of colours."""

import itertools
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from splat_cli.errors import FormatError, reason_of
from splat_cli.io.files import regular

MAX_HEADER_BYTES = 1 << 16
_TEXT = ["format", "ascii", "1.0"]
_PREFIX = re.compile(r"^(scalar_)?(scal_)?")
TYPE_BYTES = {
    **dict.fromkeys(("char", "uchar", "int8", "uint8"), 1),
    **dict.fromkeys(("short", "ushort", "int16", "uint16"), 2),
    **dict.fromkeys(("int", "uint", "float", "int32", "uint32", "float32"), 4),
    **dict.fromkeys(("double", "float64"), 8),
}


def check_header(path: Path, wanted: str) -> dict[str, int]:
    """Number of elements by name ("vertex"), from the header.

    FormatError if the file is unreadable, not a PLY, has lists (except for zero faces, as MeshLab writes to point
    clouds), or is shorter than its header states or longer by a whole row: rows would be left out.
    wanted: description of the expected file, for the message.
    """
    try:
        size = path.stat().st_size
        with regular(path).open("rb") as file:
            start = file.read(MAX_HEADER_BYTES)
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror or error}") from error
    end = re.search(rb"^end_header\s*?(\r\n|\n|\r)", start, re.MULTILINE)
    if not start.startswith(b"ply") or end is None:
        raise FormatError(f"{path} is not a PLY file, or its header is damaged; give {wanted}")
    lines = [line.split() for line in start[: end.start()].decode("ascii", "replace").splitlines()]
    counts, needed, row = _counts_and_bytes(path, lines, wanted)
    room = size - end.end()
    if needed > room or (row and room - needed >= row):
        damage = "truncated or damaged" if needed > room else "damaged"
        raise FormatError(f"{path} declares {needed} bytes of data and holds {room}: it is {damage}; export it again")
    if _TEXT in lines:
        _check_text(path, end.end(), sum(counts.values()))
    return counts


def _check_text(path: Path, start: int, num_rows: int) -> None:
    """FormatError for more rows than declared, or for 1_000, which only Python takes as a number."""
    with regular(path).open("rb") as file:
        file.seek(start)
        rows = (line for line in file if line.strip())
        if any(b"_" in row for row in itertools.islice(rows, num_rows)) or next(rows, None):
            raise FormatError(f"{path} declares {num_rows} rows of numbers and holds others: it is damaged")


def damage_of(error: Exception) -> str:
    """Description of the defect of a file that plyfile cannot read."""
    return "its header is not ASCII" if isinstance(error, UnicodeDecodeError) else reason_of(error)


def plain_name(name: str) -> str:
    """Name of a property without the prefix that CloudCompare gives to unknown properties."""
    return _PREFIX.sub("", name)


def color_levels(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Colours of vertices from 0 to 255, float32 [N, columns]; in files up to 255, 65535 (PDAL) or, as floats, 1.

    Bright colours may lie somewhat above the range.
    """
    levels = np.stack(columns, axis=1).astype(np.float32)
    largest = np.max(levels, initial=0, where=np.isfinite(levels))
    if largest > 4 * 255:
        return levels / np.float32(257)
    return levels * np.float32(255) if columns[0].dtype.kind == "f" and largest <= 4 else levels


def header_comments(path: Path) -> list[str]:
    """Comments of the header; empty if the file is not a PLY. FormatError if it cannot be read."""
    try:
        with regular(path).open("rb") as file:
            head, end, _ = file.read(MAX_HEADER_BYTES).partition(b"end_header")
    except OSError as error:  # without comments, splats would silently lose origin and antialiasing
        raise FormatError(f"{path} cannot be read: {error.strerror or error}") from error
    if not (head.startswith(b"ply") and end):
        return []
    lines = head.decode("ascii", "replace").splitlines()
    return [line.removeprefix("comment").strip() for line in lines if line.startswith("comment ")]


def _counts_and_bytes(path: Path, lines: list[list[str]], wanted: str) -> tuple[dict[str, int], int, int]:
    """Number of elements by name, the minimum number of their bytes, and those of the longest row; 0 for text."""
    is_text = _TEXT in lines
    counts: dict[str, int] = {}
    needed = count = row = longest = 0
    for line in lines:
        match line:
            case ["element", name, number]:
                if not number.isdecimal() or len(number) > 15:
                    raise FormatError(f"{path} declares {number[:40]} elements, which is not a number; export it again")
                count = counts[name] = int(number)
                row = 0
            case ["property", "list", *_] if count:
                raise FormatError(f"{path} has list properties, like a mesh; give {wanted}")
            case ["property", kind, _]:
                needed += count * (2 if is_text else TYPE_BYTES.get(kind, 1))  # in text: a digit and a space
                row += TYPE_BYTES.get(kind, 1)
                longest = max(longest, row)
    if is_text:
        return counts, max(needed - 1, 0), 0  # the last newline is optional
    return counts, needed, longest
