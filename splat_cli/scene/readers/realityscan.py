"""RealityScan (RealityCapture): the registration as CSV, "Internal/External camera parameters".

A row per photograph: position x, y, alt; heading, pitch, roll in degrees (camera to world with OpenGL's axes is
Rz(-heading) Rx(pitch) Ry(roll)); f in millimetres if the picture's longer side is 36 mm; px and py as shares of this
side; Brown's radial k1 to k4 and tangential t1, t2, in reverse order compared with OpenCV. Columns of distortion and
principal point may be missing. Source: calibration.xml of RealityScan 2.2, which defines its exports. In version 2.2,
the "OpenCV-compliant" export has k1, k2, t2, t1, and this export has new column names: yaw, f_35mm, px_norm, py_norm.
"""

import codecs
import csv
import itertools
import math
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from splat_cli.errors import SceneError
from splat_cli.io.files import regular
from splat_cli.io.json_input import decimal
from splat_cli.scene.dataset import (
    MAX_PHOTOGRAPHS,
    Dataset,
    Frame,
    Points,
    SceneOptions,
    Unusable,
    check_count,
    not_read,
    sanitize_name,
    usable_frames,
)
from splat_cli.scene.images.locate import ImageIndex, export_image_folder
from splat_cli.scene.lens import Lens
from splat_cli.scene.lens.distortion import Polynomial
from splat_cli.scene.readers.document import refuse_coefficients, w2c_from_opengl

_POSE = {"name", "x", "y", "alt", "heading", "pitch", "roll"}
_REQUIRED = _POSE | {"f"}
_NEW_NAMES = {"yaw": "heading", "f_35mm": "f", "px_norm": "px", "py_norm": "py"}
_RADIAL = ("k1", "k2", "k3", "k4")
_FILM = 36.0
_MAX_LINE, _MAX_COLUMNS = 4096, 64
_COUNT = re.compile(r"#cameras\s+([^\s,;]+)")
_BEYOND = ""  # key of the values of a row beyond the last column


def find_realityscan(root: Path) -> Path | None:
    """The first .csv file in `root` with the columns of a registration."""
    return next(_registrations(root), None)


def _registrations(root: Path) -> Iterator[Path]:
    for path in filter(Path.is_file, sorted(root.glob("*.csv"))):
        with _opened(path) as file:
            head = [file.readline(_MAX_LINE) for _ in range(2)]
        if any(set(_columns(line)) >= _POSE for line in head):
            yield path


def read_realityscan(root: Path, options: SceneOptions) -> Dataset:
    """The cameras of the CSV, with their photographs, undistorted or not. Raises SceneError."""
    path = find_realityscan(root)
    if path is None:
        columns = "#name,x,y,alt,heading,pitch,roll,f,px,py,k1,k2,k3,k4,t1,t2"
        raise SceneError(f"{root} has no registration of RealityScan, a .csv file with the columns {columns}")
    images = ImageIndex(export_image_folder(root, options))
    rows, declared = _rows(path)
    frames, skipped = usable_frames(((row["name"] or "", row) for row in rows), partial(_frame, images))
    others = not_read([other.name for other in _registrations(root)][1:])
    count = "" if declared in (None, str(len(rows))) else f", which declares {declared!a} cameras and has {len(rows)}"
    return Dataset(f"RealityScan's cameras in {path}{count}{others}", images.folder, frames, Points(), skipped)


def _rows(path: Path) -> tuple[list[dict[str, str | None]], str | None]:
    """The rows below the line with the columns, and the number of cameras in a line above, if there is one.

    The numbers may differ: it is unknown whether RealityScan counts cameras that are not exported.

    None: the row ends before that column. `_BEYOND`: the values after the last column.
    """
    try:
        with _opened(path) as file:
            lines, declared = iter(lambda: file.readline(_MAX_LINE), ""), None
            for line in lines:
                if set(columns := _columns(line)) >= _POSE:
                    break
                declared = _COUNT.match(line) or declared
            else:
                raise csv.Error("no line names columns")
            if not set(columns) >= _REQUIRED:
                raise SceneError(
                    f"{path} has no focal lengths, column f: export it as Internal/External camera parameters"
                )
            if repeated := [name for name in columns if name and columns.count(name) > 1]:
                raise SceneError(f"{path} has two columns for {repeated[0]}: export the registration again")
            separator = _separator(line)
            reader = csv.DictReader(lines, columns[:_MAX_COLUMNS], _BEYOND, delimiter=separator, skipinitialspace=True)
            rows: list[dict[str, Any]] = list(itertools.islice(reader, MAX_PHOTOGRAPHS + 1))
        check_count(path, "cameras", len(rows))
        found = [{**row, _BEYOND: "".join(row.get(_BEYOND) or "")} for row in rows]
        return found, declared[1][:40] if declared else None
    except OSError as error:
        raise SceneError(f"{path} cannot be read: {error.strerror or error}") from error
    except csv.Error as error:
        raise SceneError(f"{path} is not a readable CSV file ({error}): export the registration again") from error


def _opened(path: Path) -> TextIO:
    """The file as text: UTF-8, or UTF-16, as spreadsheets write "Unicode text". OSError."""
    with regular(path).open("rb") as file:
        is_utf16 = file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    return regular(path).open(encoding="utf-16" if is_utf16 else "utf-8-sig", errors="replace")


def _separator(line: str) -> str:
    """Separator of columns: spreadsheets write semicolons where commas separate decimals, and tabs."""
    return max(",;\t", key=line.count)


def _columns(line: str) -> list[str]:
    names = (name.strip().lstrip("#").lower() for name in line.split(_separator(line)))
    return [_NEW_NAMES.get(name, name) for name in names]


def _frame(images: ImageIndex, label: str, row: dict[str, str | None]) -> Frame:
    if row.pop(_BEYOND):
        raise Unusable("its row has more values than there are columns: export numbers with decimal points")
    if None in row.values():
        raise Unusable("its row has fewer values than there are columns: it is truncated; export it again")
    file = images.find_label(label)
    width, height = images.size(file)
    value = {name: _number(row, name) for name in row if name != "name"}
    longer = max(width, height)
    focal = value["f"] * longer / _FILM
    if not focal > 0:
        raise Unusable(f"its focal length is {value['f']:g} mm; it must be positive")
    refuse_coefficients(value, (*_RADIAL, "t1", "t2"))
    radial = tuple(value.get(name, 0.0) for name in _RADIAL)
    tangential = (value.get("t2", 0.0), value.get("t1", 0.0))
    lens = Lens(
        width,
        height,
        focal,
        focal,
        width / 2 + longer * value.get("px", 0.0),
        height / 2 + longer * value.get("py", 0.0),
        Polynomial(radial=radial, tangential=tangential).or_none(),
    )
    c2w = np.eye(4)
    c2w[:3, :3] = rotation_from_angles(value["heading"], value["pitch"], value["roll"])
    c2w[:3, 3] = value["x"], value["y"], value["alt"]
    return Frame(sanitize_name(file), file, lens, w2c_from_opengl(c2w))


def rotation_from_angles(heading: float, pitch: float, roll: float) -> np.ndarray:
    """Camera to world [3, 3] with OpenGL's axes, from degrees; at zero the camera looks down with north above."""
    (ch, sh), (cp, sp), (cr, sr) = (
        (math.cos(angle), math.sin(angle)) for angle in map(math.radians, (-heading, pitch, roll))
    )
    about_z = np.array([[ch, -sh, 0], [sh, ch, 0], [0, 0, 1]])
    about_x = np.array([[1, 0, 0], [0, cp, -sp], [0, sp, cp]])
    about_y = np.array([[cr, 0, sr], [0, 1, 0], [-sr, 0, cr]])
    return about_z @ about_x @ about_y


def _number(row: dict[str, str | None], name: str) -> float:
    """A finite number; 0 for an empty optional column. Unusable for anything else."""
    text = (row[name] or "").strip()
    if not text and name not in _REQUIRED:
        return 0.0
    try:
        return decimal(text)
    except ValueError as error:
        advice = ": export numbers with decimal points" if "," in text else ""
        raise Unusable(f"its `{name}`, {error}{advice}") from None
