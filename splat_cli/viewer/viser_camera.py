"""A browser's camera and ours: viser's look along z too, with y down."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from splat_cli.scene.quaternion import matrix_from_quat, quat_from_matrix
from splat_cli.scene.view import View

if TYPE_CHECKING:
    from viser import CameraHandle, ClientHandle


def pose_of(view: View) -> tuple[np.ndarray, np.ndarray]:
    """(position [3], rotation wxyz [4]) of the camera in the world."""
    return view.center, quat_from_matrix(view.w2c[:3, :3].T)


def field_of_view(view: View, aspect: float | None = None) -> float:
    """Vertical angle, radians, in which all of the view is seen in a window of this width over height (its own)."""
    half = view.height / view.fy / 2
    if aspect is not None:
        half = max(half, view.width / view.fx / 2 / aspect)
    return 2 * math.atan(half)


def jump(client: ClientHandle, view: View, ahead: float) -> None:
    """Puts the browser's camera where the view's is; it then turns about the point `ahead` world units away."""
    position, rotation = pose_of(view)
    with client.atomic():
        client.camera.position = position
        client.camera.wxyz = rotation
        client.camera.look_at = position + ahead * view.w2c[2, :3]
        client.camera.fov = field_of_view(view, client.camera.aspect)


def view_from(camera: CameraHandle, name: str) -> View:
    """What the browser shows, as a view of an even number of pixels each way."""
    width, height = (max(2, side - side % 2) for side in (camera.image_width, camera.image_height))
    focal = height / 2 / math.tan(camera.fov / 2)
    rotation = matrix_from_quat(camera.wxyz)
    w2c = np.eye(4)
    w2c[:3, :3] = rotation.T
    w2c[:3, 3] = -rotation.T @ np.asarray(camera.position, np.float64)
    return View(name, None, width, height, focal, focal, width / 2, height / 2, w2c)
