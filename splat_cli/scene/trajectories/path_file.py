"""Camera paths from a file: a cameras.json, or the path that nerfstudio's viewer saves."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.errors import FormatError
from splat_cli.scene.cameras_json import is_rotation, read_cameras, read_json
from splat_cli.scene.lens import MAX_SIDE
from splat_cli.scene.view import View

_AXES = np.diag([1.0, -1.0, -1.0, 1.0])
"""nerfstudio's cameras have y up and look along -z."""


def read_path(path: Path) -> tuple[list[View], float | None]:
    """(view of each frame, frames per second if stated). Raises FormatError.

    nerfstudio: `camera_path` with `camera_to_world` (row-major) and `fov` (degrees, vertical), `render_width`,
    `render_height`, `fps`; coordinates are taken as those of the scene.
    """
    content = read_json(path)
    if isinstance(content, list):
        return read_cameras(path), None
    try:
        width, height = int(content["render_width"]), int(content["render_height"])
        fps = float(content["fps"]) if "fps" in content else None
        frames = list(content["camera_path"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise FormatError(
            f"{path}: expected a list of cameras, or camera_path, render_width and render_height (wrong: {error})"
        ) from None
    if not (frames and 1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE and (fps is None or 0 < fps <= 1000)):
        raise FormatError(f"{path}: {len(frames)} cameras of {width}x{height} pixels at {fps} frames a second: none")
    return [_view(entry, number, width, height, f"{path}: camera {number}") for number, entry in enumerate(frames)], fps


def _view(entry: Any, number: int, width: int, height: int, where: str) -> View:
    try:
        pose = np.array(entry["camera_to_world"], np.float64).reshape(4, 4)
        fov = float(entry["fov"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise FormatError(f"{where}: expected camera_to_world [16] and fov (wrong: {error})") from None
    is_pose = np.isfinite(pose).all() and is_rotation(pose[:3, :3]) and np.allclose(pose[3], (0, 0, 0, 1))
    if not (is_pose and 0 < fov < 180):
        raise FormatError(f"{where}: camera_to_world has to be a rotation and a position, fov between 0 and 180")
    focal = 0.5 * height / math.tan(0.5 * math.radians(fov))
    w2c = np.linalg.inv(pose @ _AXES)
    return View(f"{number:05d}", None, width, height, focal, focal, 0.5 * width, 0.5 * height, w2c)
