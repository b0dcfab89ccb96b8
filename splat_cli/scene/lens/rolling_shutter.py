"""Rolling shutters: the rows of a photograph are taken one after another while the camera moves."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from splat_cli.io.json_input import numbers
from splat_cli.scene.quaternion import camera_center, rotation_from_vector, vector_from_rotation, world_to_camera

MAX_ANGLE = np.deg2rad(30)
"""Largest rotation during a photograph, radians: kernels use a series for its sine and cosine."""
_MAX_TIME = 1.0  # twice the picture's height


@dataclass(frozen=True)
class RollingShutter:
    """Motion of a camera from the top to the bottom edge of its picture, at constant rates.

    A pose with a rolling shutter is that at mid-height. rotation: vector [3], radians: w2c is turned by it. shift: [3],
    of the camera's position, world units. Both in the axes of the camera at mid-height. Times are -0.5 at the top edge
    and 0.5 at the bottom edge.
    """

    rotation: tuple[float, float, float]
    shift: tuple[float, float, float]

    @classmethod
    def between(cls, top: np.ndarray, bottom: np.ndarray) -> tuple[np.ndarray, Self]:
        """Pose at mid-height, and the motion, from w2c float64 [4, 4] at the top and at the bottom edge."""
        rotation = vector_from_rotation(bottom[:3, :3] @ top[:3, :3].T)
        center, moved = (camera_center(top) + camera_center(bottom)) / 2, camera_center(bottom) - camera_center(top)
        w2c = world_to_camera(rotation_from_vector(rotation / 2) @ top[:3, :3], center)
        (a, b, c), (x, y, z) = rotation.tolist(), (w2c[:3, :3] @ moved).tolist()
        return w2c, cls((a, b, c), (x, y, z))

    @classmethod
    def from_dict(cls, entry: dict[str, Any]) -> Self:
        """From its fields. ValueError for anything else."""
        (a, b, c), (x, y, z) = (numbers(entry, name, 3).tolist() for name in ("rotation", "shift"))
        if np.linalg.norm((a, b, c)) > MAX_ANGLE:
            raise ValueError("a rolling shutter turns too far")
        return cls((a, b, c), (x, y, z))

    def scaled(self, factor: float) -> Self:
        """The motion in a world that is larger by a factor."""
        x, y, z = self.shift
        return replace(self, shift=(factor * x, factor * y, factor * z))

    def pose(self, w2c: np.ndarray, time: float) -> np.ndarray:
        """w2c float64 [4, 4] at a time, from that at mid-height."""
        rotation = rotation_from_vector(time * np.array(self.rotation))
        return world_to_camera(rotation, time * np.array(self.shift)) @ w2c

    def moved(self, points: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Points [..., 3] in coordinates of the camera at times [...], from those at mid-height."""
        axis, points = np.array(self.rotation), points - times[..., None] * self.shift
        angle = np.linalg.norm(axis)
        if angle == 0:
            return points
        axis, angles = axis / angle, (times * angle)[..., None]
        across = np.cross(axis, points)
        return points + np.sin(angles) * across + (1 - np.cos(angles)) * np.cross(axis, across)

    def rays(self, rays: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rays [N, 3] of the camera at times [N], and their origins, in coordinates of the camera at mid-height."""
        still = RollingShutter(self.rotation, (0.0, 0.0, 0.0))
        return still.moved(rays, -times), times[:, None] * self.shift

    def times(self, rows: np.ndarray, height: int) -> np.ndarray:
        """Times at which rows of a picture are taken, in pixels from its top edge; limited outside of the picture."""
        return np.clip(np.nan_to_num(rows) / height - 0.5, -_MAX_TIME, _MAX_TIME)
