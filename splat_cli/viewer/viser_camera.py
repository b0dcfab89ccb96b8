"""Conversion of cameras between viser and View; both have z forward and y down."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from splat_cli.scene.quaternion import matrix_from_quat, quat_from_matrix, world_to_camera
from splat_cli.scene.view import View

if TYPE_CHECKING:
    from viser import CameraHandle, ClientHandle


def pose_of(view: View) -> tuple[np.ndarray, np.ndarray]:
    """(position [3], rotation wxyz [4]), camera to world."""
    return view.center, quat_from_matrix(view.w2c[:3, :3].T)


def field_of_view(view: View, aspect: float | None = None) -> float:
    """Vertical field of view, radians, that shows the whole view at this aspect ratio (default: its own)."""
    view = view.pinhole
    half = view.height / view.fy / 2
    if aspect is not None:
        half = max(half, view.width / view.fx / 2 / aspect)
    return 2 * math.atan(half)


def move_camera(client: ClientHandle, view: View, ahead: float) -> None:
    """Move the browser's camera to the view; the orbit centre is `ahead` world units in front of it."""
    position, rotation = pose_of(view)
    with client.atomic():
        client.camera.position = position
        client.camera.wxyz = rotation
        client.camera.look_at = position + ahead * view.w2c[2, :3]
        client.camera.fov = field_of_view(view, client.camera.aspect)


def view_from(camera: CameraHandle, name: str) -> View:
    """The browser's camera as a view with even width and height."""
    width, height = (max(2, side - side % 2) for side in (camera.image_width, camera.image_height))
    focal = height / 2 / math.tan(camera.fov / 2)
    w2c = world_to_camera(matrix_from_quat(camera.wxyz).T, np.asarray(camera.position, np.float64))
    return View(name, None, width, height, focal, focal, width / 2, height / 2, w2c)
