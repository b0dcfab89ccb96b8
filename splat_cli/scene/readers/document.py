"""Helpers of readers: type-checked reading of untrusted JSON files, and poses from camera-to-world matrices."""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.errors import SceneError
from splat_cli.io.json_input import parse_json, read_json_text
from splat_cli.scene.dataset import Unusable, check_count
from splat_cli.scene.quaternion import world_to_camera


def read_document(path: Path) -> tuple[dict[str, Any], list[Any]]:
    """(content of the file, its `frames`). SceneError unless it is a JSON object with a list `frames`."""
    try:
        document = parse_json(read_json_text(path))
    except OSError as error:
        raise SceneError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise SceneError(f"{path} is not a JSON file ({error}): export it again") from error
    frames = document.get("frames") if isinstance(document, dict) else None
    if not isinstance(frames, list) or not frames:
        raise SceneError(f"{path} has no list of `frames`: give the transforms of nerfstudio, instant-ngp or Blender")
    check_count(path, "frames", len(frames))
    return document, frames


def number(values: dict[str, Any], key: str) -> float | None:
    """A finite number, or None if the key is missing. Unusable for other values."""
    value = values.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
        raise Unusable(f"its `{key}` is not a finite number")
    return float(value)


def refuse_coefficients(values: Mapping[str, Any], read: Collection[str]) -> None:
    """Unusable for coefficients of a lens that are not zero and not read: the lens would be another one."""
    for key, value in values.items():
        if _COEFFICIENT.fullmatch(key) and key not in read and value:
            raise Unusable(f"its lens has `{key}`, which its camera model does not have here: undistort the photograph")


_COEFFICIENT = re.compile("[bkpst][xy]?[0-9]")


def text(values: dict[str, Any], key: str) -> str | None:
    """A string, or None if the key is missing. Unusable for other values."""
    value = values.get(key)
    if value is not None and not (isinstance(value, str) and value):
        raise Unusable(f"its `{key}` is not a text")
    return value


def matrix(value: Any) -> np.ndarray | None:
    """float64 [4, 4] from 3 or 4 rows of 4 finite numbers, divided by the last of 16; None for other values.

    A last row other than 0 0 0 w is that of a transposed matrix, for example.
    """
    if not isinstance(value, list) or len(value) not in (3, 4):
        return None
    for row in value:
        if not (isinstance(row, list) and len(row) == 4 and all(_is_finite(entry) for entry in row)):
            return None
    if len(value) == 4 and max(map(abs, value[3][:3])) > 1e-6:
        return None
    full = np.eye(4)
    full[:3] = value[:3]
    if len(value) == 4 and value[3][3] > 1e-12:  # homogeneous coordinates; some programs leave the last row 0
        full[:3] /= value[3][3]
    return full


def _is_finite(entry: Any) -> bool:
    return isinstance(entry, int | float) and abs(entry) < 1e300 and math.isfinite(entry)


_FLIP_Y_AND_Z = np.diag([1.0, -1.0, -1.0, 1.0])  # OpenGL's camera looks along -z with y up
_MAX_SHEAR = 1.01
"""Maximum ratio of the scales along two axes of a pose; files round to a few digits."""


def pose_matrix(numbers: Sequence[float]) -> np.ndarray:
    """float64 [4, 4] of 12 or 16 finite numbers, row by row. Unusable otherwise."""
    values = np.array(numbers, np.float64)
    if values.size not in (12, 16) or not np.isfinite(values).all() or np.abs(values).max() > 1e100:
        raise Unusable("its pose is not a matrix of 12 or 16 finite numbers")
    if values.size == 16 and np.abs(values[12:15]).max() > 1e-6:
        raise Unusable("its pose has a last row that is not 0 0 0 1: it may be transposed")
    full = np.eye(4)
    full[:3] = values.reshape(-1, 4)[:3]
    if abs(np.linalg.det(full[:3, :3])) < 1e-12:
        raise Unusable("its pose is not an invertible matrix")
    return full


def w2c_from_opengl(c2w: np.ndarray) -> np.ndarray:
    """World to camera [4, 4] from a camera-to-world matrix [4, 4] with -z forward and y up; a scale is removed.

    Unusable if it is not finite, or mirrors or shears the picture.
    """
    if not np.isfinite(c2w).all():
        raise Unusable("its pose is not finite")
    rotation, center = c2w[:3, :3] @ _FLIP_Y_AND_Z[:3, :3], c2w[:3, 3]
    u, scales, vt = np.linalg.svd(rotation)
    if np.linalg.det(u @ vt) < 0:
        raise Unusable("its pose mirrors the picture")
    if scales[0] > _MAX_SHEAR * scales[2]:
        raise Unusable("its pose shears the picture; expected a rotation, a scale and a shift")
    return world_to_camera((u @ vt).T, center)


def w2c_from_opencv(c2w: np.ndarray) -> np.ndarray:
    """World to camera [4, 4] from a camera-to-world matrix [4, 4] with z forward and y down; as above."""
    return w2c_from_opengl(c2w @ _FLIP_Y_AND_Z)
