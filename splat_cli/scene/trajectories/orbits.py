"""Camera paths around the focus of given cameras, with the lens and size of the first camera."""

from collections.abc import Callable, Sequence

import numpy as np

from splat_cli.scene.extent import scene_extent
from splat_cli.scene.trajectories.capture import FULL_CIRCLE, Capture
from splat_cli.scene.trajectories.look_at import frame, look_at
from splat_cli.scene.view import View

BANDWIDTHS = (0.6, 0.3, 0.15, 0.08)
"""Bandwidths in radians of the average of an orbit's distance and height: the first is the smoothest path."""
REACHES = (1.0, 0.7, 0.5, 0.3, 0.1)
"""Scales of a spiral, tried in this order."""
_REACH = 90
"""Percentile of the cameras' distances that is the radius of a spiral, robust to outliers."""
_FACING_ONE_WAY = np.cos(np.radians(45))
_TURNS = 2
_ARC_STEPS = 2048


def orbit_path(
    capture: Capture,
    num_frames: int,
    arc: float | None,
    avoid: Callable[[np.ndarray], np.ndarray],
    bandwidth: float,
) -> list[View]:
    """A circle around the focus if cameras surround it, otherwise an arc back and forth; a loop in both cases.

    Constant speed, with distance and height of the nearby cameras. arc: width, radians; None: that of the cameras.
    avoid: moves positions [M, 3] away from obstacles.
    """
    middle, width = capture.covered()
    width = width if arc is None else min(arc, FULL_CIRCLE)
    is_circle = width >= FULL_CIRCLE
    low = middle if is_circle else middle - width / 2
    angles = low + np.linspace(0, width, _ARC_STEPS)
    points = avoid(capture.position(angles, bandwidth))
    travelled = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))])
    share = np.arange(num_frames) / num_frames
    at = travelled[-1] * (share if is_circle else (1 - np.cos(FULL_CIRCLE * share)) / 2)
    positions = np.stack([np.interp(at, travelled, column) for column in points.T], axis=1)
    return [frame(capture.template, i, p, capture.focus, capture.up) for i, p in enumerate(positions)]


def spiral_path(views: Sequence[View], num_frames: int, focus: np.ndarray, up: np.ndarray, size: float) -> list[View]:
    """Two turns before the scene, with the radius of nine tenths of the cameras that face one way.

    Where cameras face several ways, these are the ones within 45 degrees of the camera that has the most there. As in
    LLFF (Mildenhall et al. 2019): oscillates in the image plane and, at half the frequency, in depth, looking at a
    point at the distance of the focus. size: scale of the path.
    """
    centers, directions = np.array([view.center for view in views]), np.array([view.w2c[2, :3] for view in views])
    is_alike = directions @ directions.T > _FACING_ONE_WAY
    chosen = is_alike[np.argmax(is_alike.sum(axis=1))]
    centers, forward = centers[chosen], directions[chosen].mean(axis=0)
    middle = centers.mean(axis=0)
    axes = look_at(middle, middle + forward, up)[:3, :3]
    reach = size * np.percentile(np.abs((centers - middle) @ axes.T), _REACH, axis=0)
    ahead = float(axes[2] @ (focus - middle))
    target = middle + axes[2] * (ahead if ahead > 0 else scene_extent(views))
    angles = np.arange(num_frames) * 2 * np.pi * _TURNS / num_frames
    sway = np.stack([np.cos(angles), np.sin(angles), np.sin(angles / 2)], axis=1) * reach
    return [frame(views[0], i, middle + offset @ axes, target, up) for i, offset in enumerate(sway)]
