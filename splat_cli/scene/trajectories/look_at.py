"""Cameras that look at a point with a level horizon, and the default camera of splats without cameras."""

import dataclasses

import numpy as np

from splat_cli.scene.quaternion import world_to_camera
from splat_cli.scene.trajectories.capture import perpendicular
from splat_cli.scene.view import MAX_NUMBER, View

UP = np.array([0.0, -1.0, 0.0])
"""Up direction of splats without cameras."""
_DIRECTION = np.array([0.0, -0.42, -0.91])


def look_at(position: np.ndarray, target: np.ndarray, up: np.ndarray) -> np.ndarray:
    """w2c float64 [4, 4] of a camera at `position` that looks at `target`, with `up` upwards in its picture."""
    forward = target - position
    length = np.linalg.norm(forward)
    forward = forward / length if length > 0 else perpendicular(up)
    right = np.cross(forward, up)
    if np.linalg.norm(right) < 1e-6 * np.linalg.norm(up):  # vertical direction: arbitrary
        right = perpendicular(forward)
    right /= np.linalg.norm(right)
    return world_to_camera(np.stack([right, np.cross(forward, right), forward]), position)


def levelled(view: View, up: np.ndarray) -> View:
    """The view with a level horizon, at the same position and in the same direction."""
    ahead = view.w2c[2, :3] - up * (view.w2c[2, :3] @ up)
    if np.linalg.norm(ahead) < 1e-6:  # vertical direction: keeps the top of the picture
        ahead = -view.w2c[1, :3]
    return dataclasses.replace(view, w2c=look_at(view.center, view.center + ahead, up))


def frame(template: View, number: int, position: np.ndarray, target: np.ndarray, up: np.ndarray) -> View:
    """Frame `number` of a path: size and lens of `template`."""
    return dataclasses.replace(template, name=f"{number:05d}", path=None, w2c=look_at(position, target, up))


def overview(means: np.ndarray) -> View:
    """A camera above and in front of the centre of splats [N, 3], which sees most of them."""
    middle, radius = np.zeros(3), 1.0
    means = means[(np.abs(means) < MAX_NUMBER / 100).all(axis=1)]
    if len(means):
        middle = middle_of(means)
        radius = float(np.quantile(np.linalg.norm(means - middle, axis=1), 0.7)) or 1.0
    w2c = look_at(middle + 2.5 * radius * _DIRECTION, middle, UP)
    return View("overview", None, 960, 720, 720.0, 720.0, 480.0, 360.0, w2c)


def middle_of(means: np.ndarray) -> np.ndarray:
    """The median of positions [N, 3] along each axis, float64 [3]."""
    return np.median(means, axis=0).astype(np.float64)
