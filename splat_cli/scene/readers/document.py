"""Helpers of readers: type-checked reading of untrusted JSON files, and poses from camera-to-world matrices."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.errors import SceneError
from splat_cli.io.json_input import is_number, parse_json, read_json_text
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
    if not is_number(value):
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
    """float64 [4, 4] from 12 or 16 finite numbers, in rows of 4 or in one list, divided by the last of 16.

    None for other values. A last row other than 0 0 0 w is that of a transposed matrix, for example.
    """
    if isinstance(value, list) and all(isinstance(row, list) and len(row) == 4 for row in value):
        value = [number for row in value for number in row]
    if not isinstance(value, list) or len(value) not in (12, 16) or not all(map(is_number, value)):
        return None
    full, (*bottom, last) = np.eye(4), value[12:] or [0, 0, 0, 1]
    if max(map(abs, bottom)) > 1e-6 or last < 0:
        return None
    full[:3] = np.reshape(value[:12], (3, 4))
    if last > 1e-12:  # homogeneous coordinates; some programs leave the last row 0
        full[:3] /= last
    return full


_FLIP_Y_AND_Z = np.diag([1.0, -1.0, -1.0, 1.0])  # OpenGL's camera looks along -z with y up
_MAX_SHEAR = 1.01
"""Maximum ratio of the scales along two axes of a pose; files round to a few digits."""


def pose_matrix(value: Any, name: str = "pose") -> np.ndarray:
    """The `matrix` of a pose. Unusable if it is not an invertible matrix."""
    full = matrix(value)
    if full is None or not 1e-12 < abs(np.linalg.det(full[:3, :3])) < np.inf:
        raise Unusable(
            f"its `{name}` is not an invertible matrix of 12 or 16 finite numbers with a last row of 0 0 0 1 "
            "(it may be transposed)"
        )
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
