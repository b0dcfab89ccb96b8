"""Bundler's bundle.out with the list of photographs, which Metashape, RealityCapture and others export, too.

A camera is f, k1, k2, a rotation and a translation from world to camera, which looks along -z with y up. Source:
Bundler v0.4 User's Manual, section "Output format and scene representation".
"""

import re
from array import array
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from splat_cli.errors import SceneError
from splat_cli.io.files import first_bytes, regular
from splat_cli.scene.dataset import (
    Dataset,
    Frame,
    Points,
    SceneOptions,
    Unusable,
    check_count,
    not_read,
    sanitize_name,
    usable_frames,
    whole_levels,
)
from splat_cli.scene.images.locate import ImageIndex, export_image_folder
from splat_cli.scene.lens import Lens
from splat_cli.scene.lens.distortion import Polynomial
from splat_cli.scene.quaternion import is_rotation

_HEADER = b"# Bundle file"
_LISTS = ("list.txt", "{stem}.list.txt", "{stem}_list.txt", "bundle.list.txt")
_NUMBERS_OF_NAME = re.compile(r"\s+\d+\s+[\d.eE+-]+$")
_CAMERA_NUMBERS = 15
_MAX_NUMBER = 1e15
_CHUNK, _MAX_WORD = 1 << 20, 1 << 10
_SOME = 4096  # points
_SLACK = 1.1  # points at the edge of an undistorted photograph lie outside it
_FLIP_Y_AND_Z = np.diag([1.0, -1.0, -1.0])


def find_bundler(root: Path) -> Path | None:
    """The first .out file in `root` that starts like Bundler's."""
    return next(_bundles(root), None)


def _bundles(root: Path) -> Iterator[Path]:
    for path in filter(Path.is_file, sorted(root.glob("*.out"))):
        if first_bytes(path, len(_HEADER)) == _HEADER:
            yield path


def read_bundler(root: Path, options: SceneOptions) -> Dataset:
    """Cameras and points; names of photographs from list.txt, else in order of their names. Raises SceneError."""
    path = find_bundler(root)
    if path is None:
        raise SceneError(f"{root} has no bundle.out of Bundler")
    try:
        values = _numbers(path)
    except ValueError as error:
        raise SceneError(f"{path} does not consist of numbers: export it again") from error
    num_cameras, num_points = (
        int(value) if 0 <= value < 1e9 and value % 1 == 0 else -1 for value in [*values[:2], -1, -1][:2]
    )
    cameras = values[2 : 2 + _CAMERA_NUMBERS * max(num_cameras, 0)]
    if num_cameras < 1 or len(cameras) < _CAMERA_NUMBERS * num_cameras:
        raise SceneError(f"{path} declares {num_cameras} cameras and has fewer: it is truncated; export it again")
    check_count(path, "cameras", num_cameras)
    images = ImageIndex(export_image_folder(root, options))
    try:
        points, reach = _points(values[2 + len(cameras) :], num_points, num_cameras)
    except ValueError as error:
        raise SceneError(
            f"{path} does not have the {num_points} points that it declares ({error}): export it again"
        ) from None
    entries = zip(_labels(path, num_cameras), cameras.reshape(-1, _CAMERA_NUMBERS), reach, strict=False)
    registered = ((label, (camera, half)) for label, camera, half in entries if camera[0] != 0)
    frames, skipped = usable_frames(registered, partial(_frame, images))
    others = not_read([other.name for other in _bundles(root)][1:])
    return Dataset(f"Bundler's cameras in {path}{others}", images.folder, frames, points, skipped)


def _numbers(path: Path) -> np.ndarray:
    """float64 [N] of the numbers below the first line; ValueError for other words."""
    values, rest = array("d"), b""
    with regular(path).open("rb") as file:
        file.readline()
        while chunk := file.read(_CHUNK):
            if b"_" in chunk:  # float() reads 1_000
                raise ValueError("a number with an underscore")
            words = (rest + chunk).split()
            is_cut = not chunk[-1:].isspace()  # in the middle of a word
            rest = words.pop() if is_cut and words else b""
            values.extend(map(float, words))
            if len(rest) > _MAX_WORD:
                raise ValueError(f"a word of {len(rest)} characters")
    values.extend(map(float, rest.split()))
    return np.frombuffer(values, np.float64)


def _labels(path: Path, num: int) -> list[str]:
    """The names in the list; "0 FOCAL_LENGTH" may follow each. SceneError unless a list has `num` names."""
    others = []
    for name in _LISTS:
        beside = path.with_name(name.format(stem=path.stem))
        if beside.is_file():
            lines = regular(beside).read_text(encoding="utf-8-sig", errors="surrogateescape").splitlines()
            labels = [_NUMBERS_OF_NAME.sub("", line.strip()) for line in lines if line.strip()]
            if len(labels) == num:
                return labels
            others.append(f"{beside} lists {len(labels)} photographs")
    if others:
        raise SceneError(f"{', '.join(others)}, {path} has {num} cameras: export both again")
    raise SceneError(f"beside {path} there is no list.txt with the names of its photographs: export it, too")


def _frame(images: ImageIndex, label: str, entry: tuple[np.ndarray, np.ndarray]) -> Frame:
    """The file states no sizes: a photograph must hold the points that its camera saw."""
    camera, reach = entry
    file = images.find_label(label)
    width, height = images.size(file)
    if (2 * reach > _SLACK * np.array([width, height])).any():
        x, y = 2 * reach
        raise Unusable(f"is {width}x{height}, but its camera saw points across {x:.0f}x{y:.0f}: use the original size")
    focal, k1, k2 = (float(value) for value in camera[:3])
    if not (np.abs(camera).max() < _MAX_NUMBER and focal > 0):
        raise Unusable("its camera is not made of finite numbers with a positive focal length")
    rotation = camera[3:12].reshape(3, 3)
    if not is_rotation(rotation):
        raise Unusable("its camera has no rotation matrix")
    w2c = np.eye(4)
    w2c[:3, :3], w2c[:3, 3] = _FLIP_Y_AND_Z @ rotation, _FLIP_Y_AND_Z @ camera[12:]
    bent = Polynomial(radial=(k1, k2)).or_none()
    lens = Lens(width, height, focal, focal, width / 2, height / 2, bent)
    return Frame(sanitize_name(file), file, lens, w2c)


def _points(values: np.ndarray, num: int, num_cameras: int) -> tuple[Points, np.ndarray]:
    """The points, and by camera the largest |x| and |y| at which it saw one, pixels [num_cameras, 2].

    Each is a position, a colour, and a list of observations: camera, key, x, y, from the middle of the photograph.
    ValueError if they are not `num`.
    """
    positions: list[np.ndarray] = []
    colors: list[np.ndarray] = []
    lengths: list[int] = []
    seen, reach = list[np.ndarray](), np.zeros((num_cameras, 2))
    at = 0
    while at < len(values):
        length = values[at + 6] if at + 7 <= len(values) else np.nan
        if not 0 <= length <= (len(values) - at - 7) / 4:
            raise ValueError(f"point {len(positions) + 1} is damaged or truncated")
        positions.append(values[at : at + 3])
        colors.append(values[at + 3 : at + 6])
        lengths.append(int(length))
        seen.append(values[at + 7 : at + 7 + 4 * int(length)])
        if len(seen) == _SOME:
            _widen(reach, seen)
            seen = []
        at += 7 + 4 * int(length)
    if len(positions) != num:
        raise ValueError(f"it has {len(positions)}")
    if not positions:
        return Points(), reach
    _widen(reach, seen)
    return Points(np.array(positions), whole_levels(np.array(colors)), track_lengths=np.array(lengths)), reach


def _widen(reach: np.ndarray, seen: list[np.ndarray]) -> None:
    """Raise `reach` to the observations of some points."""
    rows = np.concatenate(seen or [np.zeros(0)]).reshape(-1, 4)
    rows = rows[np.isfinite(rows).all(axis=1) & (rows[:, 0] >= 0) & (rows[:, 0] < len(reach))]
    np.maximum.at(reach, rows[:, 0].astype(int), np.abs(rows[:, 2:]))
