"""Camera paths about what the given cameras look at. Lens and size are those of the first camera."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from splat_cli.scene.extent import scene_extent
from splat_cli.scene.view import View

_REACH = 90
"""Percentile of the cameras' distances that an ellipse or a spiral goes out to: a few strays do not count."""
_TURNS = 2
_ARC_STEPS = 4096


def orbit_path(views: Sequence[View], num_frames: int, focus: np.ndarray, up: np.ndarray) -> list[View]:
    """A circle about `focus`, at the median distance and height of the cameras; it ends where it began."""
    circle = _Around(views, focus, up)
    radius = float(np.median(np.hypot(*circle.flat.T)))
    angles = circle.start + np.arange(num_frames) * 2 * np.pi / num_frames
    return circle.frames(radius * np.stack([np.cos(angles), np.sin(angles)], axis=1))


def ellipse_path(views: Sequence[View], num_frames: int, focus: np.ndarray, up: np.ndarray) -> list[View]:
    """The same on an ellipse that reaches as far each way as nine tenths of the cameras, at even speed.

    As the videos of Mip-NeRF 360 (Barron et al. 2022), but about the focus.
    """
    around = _Around(views, focus, up)
    axes = np.linalg.eigh(around.flat.T @ around.flat)[1].T
    reach = np.percentile(np.abs(around.flat @ axes.T), _REACH, axis=0)
    first = (axes @ [np.cos(around.start), np.sin(around.start)]) / np.maximum(reach, 1e-12)
    angles = np.arctan2(first[1], first[0]) + np.linspace(0, 2 * np.pi, _ARC_STEPS)
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1) * reach @ axes
    travelled = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))])
    at = np.arange(num_frames) * travelled[-1] / num_frames
    return around.frames(np.stack([np.interp(at, travelled, column) for column in points.T], axis=1))


def spiral_path(views: Sequence[View], num_frames: int, focus: np.ndarray, up: np.ndarray) -> list[View]:
    """Two turns before the scene, out to where nine tenths of the cameras were: for those that face one way.

    As the videos of LLFF (Mildenhall et al. 2019): the camera sways in its image plane and, half as fast, back and
    forth, and looks at the point as far ahead as the focus.
    """
    centers = np.array([view.center for view in views])
    middle, forward = centers.mean(axis=0), np.mean([view.w2c[2, :3] for view in views], axis=0)
    axes = looking(middle, middle + forward, up)[:3, :3]
    reach = np.percentile(np.abs((centers - middle) @ axes.T), _REACH, axis=0)
    ahead = float(axes[2] @ (focus - middle))
    target = middle + axes[2] * (ahead if ahead > 0 else scene_extent(views))
    angles = np.arange(num_frames) * 2 * np.pi * _TURNS / num_frames
    sway = np.stack([np.cos(angles), np.sin(angles), np.sin(angles / 2)], axis=1) * reach
    return [_frame(views[0], i, looking(middle + offset @ axes, target, up)) for i, offset in enumerate(sway)]


def looking(position: np.ndarray, target: np.ndarray, up: np.ndarray) -> np.ndarray:
    """w2c float64 [4, 4] of a camera at `position` that looks at `target`, with `up` upwards in its picture."""
    forward = target - position
    length = np.linalg.norm(forward)
    forward = forward / length if length > 0 else _across(up)
    right = np.cross(forward, up)
    if np.linalg.norm(right) < 1e-6 * np.linalg.norm(up):  # straight up or down: any way is right
        right = _across(forward)
    right /= np.linalg.norm(right)
    w2c = np.eye(4)
    w2c[:3, :3] = np.stack([right, np.cross(forward, right), forward])
    w2c[:3, 3] = -w2c[:3, :3] @ position
    return w2c


def levelled(view: View, up: np.ndarray) -> View:
    """The view from the same place and the same way, with a level horizon."""
    ahead = view.w2c[2, :3] - up * (view.w2c[2, :3] @ up)
    if np.linalg.norm(ahead) < 1e-6:  # it looks straight up or down: the top of its picture is ahead
        ahead = -view.w2c[1, :3]
    return dataclasses.replace(view, w2c=looking(view.center, view.center + ahead, up))


class _Around:
    """The cameras about the vertical through the focus: `flat` [N, 2] across it, `start` the angle of the first."""

    def __init__(self, views: Sequence[View], focus: np.ndarray, up: np.ndarray) -> None:
        east = _across(up)
        self.axes = np.stack([east, np.cross(up, east)])
        self.template, self.focus, self.up = views[0], focus, up
        offsets = np.array([view.center for view in views]) - focus
        self.flat = offsets @ self.axes.T
        self.height = float(np.median(offsets @ up))
        self.start = float(np.arctan2(self.flat[0, 1], self.flat[0, 0]))

    def frames(self, flat: np.ndarray) -> list[View]:
        """Cameras at `flat` [F, 2] and the common height, which look at the focus."""
        positions = self.focus + self.height * self.up + flat @ self.axes
        return [_frame(self.template, i, looking(p, self.focus, self.up)) for i, p in enumerate(positions)]


def _frame(template: View, number: int, w2c: np.ndarray) -> View:
    return dataclasses.replace(template, name=f"{number:05d}", path=None, w2c=w2c)


def _across(vector: np.ndarray) -> np.ndarray:
    """A vector of length 1 at right angles to another."""
    across = np.cross(vector, np.eye(3)[np.argmin(np.abs(vector))])
    return across / np.linalg.norm(across)
