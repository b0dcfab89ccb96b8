"""Smooth paths through given cameras, and views at another size."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from splat_cli.scene.quaternion import nearest_rotation, world_to_camera
from splat_cli.scene.view import View


def interpolate_path(views: Sequence[View], num_frames: int) -> list[View]:
    """`num_frames` cameras on a smooth path through all `views` in order, at constant speed.

    Cubic Hermite interpolation of 3x4 camera-to-world matrices, with rotations projected to the nearest rotation. Size
    and lens are those of the first view.
    """
    poses = np.array([np.linalg.inv(view.w2c)[:3] for view in views])
    times = _travel_times(poses)
    slopes = _slopes(poses, times)
    frames = []
    for number, time in enumerate(np.linspace(0.0, times[-1], num_frames)):
        pose = _hermite(poses, slopes, times, float(time))
        w2c = world_to_camera(nearest_rotation(pose[:, :3]).T, pose[:, 3])
        frames.append(dataclasses.replace(views[0], name=f"{number:05d}", path=None, w2c=w2c))
    return frames


def with_size(view: View, width: int, height: int) -> View:
    """The view at `width` x `height` pixels: equal vertical field of view, cropped or extended at the sides."""
    scale = height / view.height
    return dataclasses.replace(
        view,
        width=width,
        height=height,
        fx=view.fx * scale,
        fy=view.fy * scale,
        cx=width / 2 + (view.cx - view.width / 2) * scale,
        cy=view.cy * scale,
    )


def _travel_times(poses: np.ndarray) -> np.ndarray:
    """Arrival times at the poses [P, 3, 4] at constant speed of translation and rotation."""
    steps = np.diff(poses, axis=0)
    moved = np.linalg.norm(steps[:, :, 3], axis=1)
    turned = np.linalg.norm(steps[:, :, :3], axis=(1, 2))
    durations = moved / max(moved.mean(), 1e-12) + turned / max(turned.mean(), 1e-12) if len(steps) else moved
    return np.concatenate([[0.0], np.cumsum(durations + 1e-3)])


def _hermite(poses: np.ndarray, slopes: np.ndarray, times: np.ndarray, time: float) -> np.ndarray:
    """The cubic curve with `slopes` [P, 3, 4] through `poses` [P, 3, 4] at `time`."""
    if len(poses) == 1:
        return poses[0]
    left = min(int(np.searchsorted(times, time, side="right")) - 1, len(poses) - 2)
    right = left + 1
    span = times[right] - times[left]
    t = (time - times[left]) / span
    return (
        (2 * t**3 - 3 * t**2 + 1) * poses[left]
        + (t**3 - 2 * t**2 + t) * span * slopes[left]
        + (3 * t**2 - 2 * t**3) * poses[right]
        + (t**3 - t**2) * span * slopes[right]
    )


def _slopes(poses: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Slopes [P, 3, 4] of the parabola through each pose and its neighbours."""
    if len(poses) == 1:
        return np.zeros_like(poses)
    return np.gradient(poses, times, axis=0, edge_order=2 if len(poses) > 2 else 1)
