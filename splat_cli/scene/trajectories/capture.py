"""Type of a capture: around an object, from one side, or a walk."""

from collections.abc import Sequence

import numpy as np

from splat_cli.scene.view import View

FULL_CIRCLE = 2 * np.pi
_MAX_GAP = np.radians(75)
"""Maximum angle between neighbouring cameras of a full circle, radians."""
_FACING = np.cos(np.radians(40))
_MIN_FACING = 0.7
"""Minimum fraction of the cameras that look at a common focus."""
_STRAYS = (2, 98)
"""Percentiles of the angles at the ends of an arc."""


class Capture:
    """Cameras in cylindrical coordinates about the vertical through the focus.

    angles, radii, heights: [N], radians and world units.
    """

    def __init__(self, views: Sequence[View], focus: np.ndarray, up: np.ndarray) -> None:
        self.template, self.focus, self.up = views[0], focus, up
        east = perpendicular(up)
        self._axes = np.stack([east, np.cross(up, east)])
        offsets = np.array([view.center for view in views]) - focus
        flat = offsets @ self._axes.T
        self.angles = np.arctan2(flat[:, 1], flat[:, 0])
        self.radii, self.heights = np.hypot(*flat.T), offsets @ up
        forward = np.array([view.w2c[2, :3] for view in views])
        distances = np.maximum(np.linalg.norm(offsets, axis=1), 1e-12)
        self._facing = -(forward * offsets).sum(axis=1) / distances

    @property
    def kind(self) -> str:
        """Suitable path: "walk" if cameras look at different points, otherwise "orbit" or "arc"."""
        if np.mean(self._facing > _FACING) < _MIN_FACING:
            return "walk"
        return "orbit" if self.covered()[1] >= FULL_CIRCLE else "arc"

    def covered(self) -> tuple[float, float]:
        """(centre, width) of the arc of cameras without outliers, radians; a full circle starts at camera 0."""
        angles = np.sort(self.angles)
        gaps = np.diff(angles, append=angles[0] + FULL_CIRCLE)
        widest = int(np.argmax(gaps))
        if gaps[widest] < _MAX_GAP:
            return float(self.angles[0]), FULL_CIRCLE
        opposite = angles[widest] + gaps[widest] / 2 - np.pi
        low, high = np.percentile(_wrapped(angles - opposite), _STRAYS)
        return float(opposite + (low + high) / 2), float(high - low)

    def position(self, angles: np.ndarray, bandwidth: float) -> np.ndarray:
        """Positions [F, 3] at `angles` [F], with radius and height of the cameras near that angle.

        Gaussian kernel regression over the angle. bandwidth: radians.
        """
        exponents = -0.5 * (_wrapped(angles[:, None] - self.angles) / bandwidth) ** 2
        weights = np.exp(exponents - exponents.max(axis=1, keepdims=True))
        radii, heights = (weights @ np.stack([self.radii, self.heights], axis=1) / weights.sum(axis=1)[:, None]).T
        directions = np.stack([np.cos(angles), np.sin(angles)], axis=1) @ self._axes
        return self.focus + radii[:, None] * directions + heights[:, None] * self.up


def perpendicular(vector: np.ndarray) -> np.ndarray:
    """A unit vector perpendicular to another."""
    found = np.cross(vector, np.eye(3)[np.argmin(np.abs(vector))])
    return found / np.linalg.norm(found)


def _wrapped(angles: np.ndarray) -> np.ndarray:
    """Angles wrapped to -pi to pi."""
    return (angles + np.pi) % FULL_CIRCLE - np.pi
