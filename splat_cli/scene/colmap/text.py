"""COLMAP's text files: cameras.txt, images.txt, points3D.txt."""

import codecs
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from splat_cli.errors import SceneError
from splat_cli.io.files import regular
from splat_cli.io.json_input import decimal
from splat_cli.scene.colmap.model import CAMERA_MODELS, MAX_PARAMETERS, MODEL_IDS, Camera, Image, add_camera
from splat_cli.scene.dataset import check_count

_MAX_LINE = 1 << 21
"""Maximum length of the line of a point in characters: a point seen in MAX_PHOTOGRAPHS takes 1 MB."""
_MAX_DIGITS = 20


def read_cameras(path: Path) -> dict[int, Camera]:
    """Cameras by id. SceneError for an invalid line."""
    cameras: dict[int, Camera] = {}
    for number, line in _lines(path):
        try:
            camera_id, model, width, height, *params = line.split(maxsplit=4 + MAX_PARAMETERS)
            camera = Camera(_whole(camera_id), model, _whole(width), _whole(height), tuple(map(decimal, params)))
        except ValueError as error:
            raise _bad_line(path, number, "CAMERA_ID MODEL WIDTH HEIGHT PARAMS...") from error
        num_params = CAMERA_MODELS[MODEL_IDS[model]][1] if model in MODEL_IDS else len(params)
        if len(params) != num_params:
            raise _bad_line(path, number, f"{num_params} parameters of a {model} camera")
        add_camera(cameras, camera, path)
        check_count(path, "cameras", len(cameras))
    return cameras


def read_images(path: Path) -> list[Image]:
    """Poses. Each image has two lines; the second, its 2D points, may be empty or missing, and is skipped."""
    images = []
    is_pose = True
    for number, line in _lines(path, keep_empty=True):
        if is_pose and not line:
            continue
        if is_pose or (line and not line[-1].isdigit()):  # 2D points end with an id; poses with a name
            images.append(_image(path, number, line))
            check_count(path, "images", len(images))
            is_pose = False
        else:
            is_pose = True
    return images


def _image(path: Path, number: int, line: str) -> Image:
    try:
        image_id, *pose, camera_id, name = line.split(maxsplit=9)
        qw, qx, qy, qz, tx, ty, tz = (decimal(word.rstrip(",")) for word in pose)  # COLMAP accepts commas, too
        return Image(_whole(image_id), _whole(camera_id), name, (qw, qx, qy, qz), (tx, ty, tz))
    except ValueError as error:
        raise _bad_line(path, number, "IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME") from error


def _whole(word: str) -> int:
    """A whole number; a comma may follow. ValueError for other words, or more digits than COLMAP writes."""
    word = word.rstrip(",")
    if len(word) > _MAX_DIGITS or not _is_plain(word):
        raise ValueError("too many digits, or others than 0 to 9")
    return int(word)


def _is_plain(line: str) -> bool:
    """Whether Python reads numbers in it as other programs do: it also takes 1_000 and digits of other scripts."""
    return line.isascii() and "_" not in line


def read_points(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Points float64 [P, 3], colours uint8 [P, 3], errors float64 [P] and track lengths int64 [P].

    SceneError for an invalid line.
    """
    positions, colors, errors, track_lengths = array("d"), bytearray(), array("d"), array("q")
    for number, line in _lines(path):
        try:
            if len(line) > _MAX_LINE or not _is_plain(line):
                raise ValueError("too long, or not made of numbers")
            _, x, y, z, r, g, b, error, *track = line.split()
            positions.extend((float(x), float(y), float(z)))
            colors.extend(map(int, (r, g, b)))  # ValueError beyond 0 to 255
            errors.append(float(error))
            track_lengths.append(len(track) // 2)
        except ValueError as error:
            raise _bad_line(path, number, "POINT3D_ID X Y Z R G B ERROR TRACK...") from error
    return (
        np.frombuffer(positions, np.float64).reshape(-1, 3),
        np.frombuffer(colors, np.uint8).reshape(-1, 3),
        np.frombuffer(errors, np.float64),
        np.frombuffer(track_lengths, np.int64),
    )


def _lines(path: Path, keep_empty: bool = False) -> Iterator[tuple[int, str]]:
    """(number, text) of the lines that are not comments; bytes that are not UTF-8 become surrogates."""
    try:
        _refuse_utf16(path)
        with regular(path).open(encoding="utf-8-sig", errors="surrogateescape") as file:
            for number, line in enumerate(file, 1):
                text = line.strip()
                if not text.startswith("#") and (text or keep_empty):
                    yield number, text
    except OSError as error:
        raise SceneError(f"{path} cannot be read: {error.strerror or error}") from error


def _refuse_utf16(path: Path) -> None:
    """SceneError for a file in UTF-16, as `>` of Windows PowerShell writes it. OSError."""
    with regular(path).open("rb") as file:
        if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            raise SceneError(f"{path} is in UTF-16, but expected in UTF-8: save it in UTF-8, or export the model again")


def _bad_line(path: Path, number: int, expected: str) -> SceneError:
    return SceneError(f"{path}, line {number}: expected {expected}; the file is damaged: export the model again")
