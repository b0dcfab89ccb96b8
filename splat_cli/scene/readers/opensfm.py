"""OpenSfM's reconstruction.json, which OpenDroneMap (ODM, WebODM) writes, too.

A shot has a rotation vector and a translation from world to camera, which looks along z with y down. Focal lengths and
principal points are shares of the image's longer side, the latter from its centre. Source: OpenSfM's documentation,
"Geometric models" (doc/source/geometry.rst) and "Dataset structure" (dataset.rst).
"""

import re
from array import array
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.errors import SceneError, reason_of
from splat_cli.io.files import regular
from splat_cli.io.json_input import numbers, parse_json
from splat_cli.scene.dataset import (
    Dataset,
    Frame,
    Points,
    SceneOptions,
    Unusable,
    check_count,
    sanitize_name,
    usable_frames,
    whole_levels,
)
from splat_cli.scene.images.locate import ImageIndex, export_image_folder
from splat_cli.scene.lens import Lens, spherical_lens
from splat_cli.scene.lens.distortion import Polynomial
from splat_cli.scene.quaternion import rotation_from_vector
from splat_cli.scene.readers.document import number, refuse_coefficients, text

_FILES = ("reconstruction.json", "opensfm/reconstruction.json")  # OpenSfM's, ODM's
_HEAD_BYTES = 1 << 16
_MAX_BYTES = 1 << 29
"""Maximum size of a file in bytes; OpenDroneMap writes 0.1 MiB per photograph, including points."""
_THREE_NUMBERS = rb"\[" + b",".join([rb"\s*([-+.\deE]+)\s*"] * 3) + rb"\]"
_POINT = re.compile(
    rb'"\d+"\s*:\s*\{\s*"color"\s*:\s*'
    + _THREE_NUMBERS
    + rb'\s*,\s*"coordinates"\s*:\s*'
    + _THREE_NUMBERS
    + rb"\s*\}\s*,?"
)
_SPHERES = ("spherical", "equirectangular")
_MODELS, _FISHEYE_MODELS = ("perspective", "simple_radial", "radial", "brown"), ("fisheye", "fisheye_opencv")
_RADIAL = ("k1", "k2", "k3", "k4")
_MAX_NUMBER = 1e15


def find_opensfm(root: Path) -> Path | None:
    """The reconstruction.json in `root` or in its folder `opensfm`, if it starts like OpenSfM's."""
    for path in (root / name for name in _FILES):
        if path.is_file():
            with regular(path).open("rb") as file:
                head = file.read(_HEAD_BYTES)
            if head.lstrip().startswith(b"[") and b'"projection_type"' in head:
                return path
    return None


def read_opensfm(root: Path, options: SceneOptions) -> Dataset:
    """Shots and points of the first reconstruction, the largest; the others have their own coordinates.

    Raises SceneError.
    """
    path = find_opensfm(root)
    if path is None:
        raise SceneError(f"{root} has no reconstruction.json of OpenSfM or OpenDroneMap")
    try:
        rest, rows = _without_points(path)
        reconstructions = parse_json(rest)
        cameras, shots, points = (reconstructions[0].get(key, {}) for key in ("cameras", "shots", "points"))
        entries, points = [(name, dict(shot)) for name, shot in shots.items()], _points(points, rows)
        lenses = {name: dict(camera) for name, camera in cameras.items()}
    except OSError as error:
        raise SceneError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
        raise SceneError(f"{path} is not a reconstruction of OpenSfM ({reason_of(error)}): make it again") from error
    check_count(path, "shots", len(entries))
    is_part = root.name == "opensfm" and not (root / "images").is_dir()  # in an OpenDroneMap project
    images = ImageIndex(export_image_folder(root.parent if is_part else root, options))
    frames, skipped = usable_frames(entries, partial(_frame, images, lenses))
    part = f", the first of {len(reconstructions)} that are not connected" if len(reconstructions) > 1 else ""
    return Dataset(f"OpenSfM's reconstruction in {path}{part}", images.folder, frames, points, skipped)


def _frame(images: ImageIndex, lenses: dict[str, dict[str, Any]], name: str, shot: dict[str, Any]) -> Frame:
    file = images.find_label(name)
    camera = text(shot, "camera")
    if camera not in lenses:
        raise Unusable("its camera is not in the file")
    w2c = np.eye(4)
    w2c[:3, :3] = rotation_from_vector(_vector(shot, "rotation"))
    w2c[:3, 3] = _vector(shot, "translation")
    return Frame(sanitize_name(file), file, _lens(lenses[camera]), w2c)


def _vector(shot: dict[str, Any], key: str) -> np.ndarray:
    try:
        vector = numbers(shot, key, 3)
    except ValueError as error:
        raise Unusable(str(error)) from None
    if not np.abs(vector).max() < _MAX_NUMBER:
        raise Unusable(f"its `{key}` has numbers that are not below {_MAX_NUMBER:g}")
    return vector


def _lens(camera: dict[str, Any]) -> Lens:
    """The lens of a camera. Unusable for types that have no lens here."""
    model = text(camera, "projection_type")
    if model in _SPHERES:
        return spherical_lens(*(round(number(camera, name) or 1) for name in ("width", "height")))
    if model not in _MODELS + _FISHEYE_MODELS:
        known = ", ".join(_MODELS + _FISHEYE_MODELS + _SPHERES)
        raise Unusable(f"its camera is of type {model!a}; expected one of {known}")
    value = {name: number(camera, name) or 0.0 for name in camera if name != "projection_type"}
    width, height = (round(value.get(name, 0.0)) for name in ("width", "height"))
    longer = max(width, height)
    fx, fy = (value.get(name, value.get("focal", 0.0)) * longer for name in ("focal_x", "focal_y"))
    if not (min(width, height) > 0 and fx > 0 and fy > 0):
        raise Unusable(f"its camera has the focal lengths {fx:g}, {fy:g} and the size {width}x{height}")
    refuse_coefficients(value, (*_RADIAL, "p1", "p2"))
    distortion = Polynomial(
        radial=tuple(value.get(name, 0.0) for name in _RADIAL),
        tangential=(value.get("p1", 0.0), value.get("p2", 0.0)),
        fisheye=model in _FISHEYE_MODELS,
    )
    cx, cy = width / 2 + longer * value.get("c_x", 0.0), height / 2 + longer * value.get("c_y", 0.0)
    return Lens(width, height, fx, fy, cx, cy, distortion.or_none())


def _without_points(path: Path) -> tuple[bytes, np.ndarray]:
    """The file without points; colours and coordinates of the first reconstruction's points, float64 [P, 6].

    Points as Python objects would take four times the memory of their text. Points in another layout stay in the JSON.
    OSError; ValueError for a file that is too long or a number that is damaged.
    """
    with regular(path).open("rb") as file:
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ValueError(f"it is longer than {_MAX_BYTES:,} bytes")
    rest, rows, end, is_first = bytearray(), array("d"), 0, True
    for match in _POINT.finditer(content):
        between = content[end : match.start()]
        is_first = is_first and not (rows and b'"shots"' in between)
        if is_first:
            rows.extend(map(float, match.groups()))
        rest += between
        if not match[0].endswith(b","):  # the last point: no comma may remain before it
            while rest[-1:].isspace() or rest.endswith(b","):
                del rest[-1:]
        end = match.end()
    return bytes(rest + content[end:]), np.frombuffer(rows, np.float64).reshape(-1, 6)


def _points(points: dict[str, Any], rows: np.ndarray) -> Points:
    """All points: the numbers of `_without_points`, and the rest. ValueError if damaged."""
    others = [[*numbers(point, "color", 3), *numbers(point, "coordinates", 3)] for point in points.values()]
    rows = np.concatenate([rows, np.array(others, np.float64).reshape(-1, 6)])
    return Points(rows[:, 3:], whole_levels(rows[:, :3]))
