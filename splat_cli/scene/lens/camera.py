"""Cameras with lenses, and the pinhole cameras to which they are undistorted."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from splat_cli.errors import SceneError
from splat_cli.scene.lens.distortion import Distortion, Equirectangular

MIN_SCALE, MAX_SCALE = 0.2, 2.0  # limits of the undistorted size, relative to the photograph's, as in COLMAP
MAX_SIDE = 1 << 15
IMPOSSIBLE = "that no lens has"
"""Part of the messages on cameras that cannot be right."""


@dataclass(frozen=True)
class Pinhole:
    """Size in pixels, focal lengths and principal point in pixels; the image's top-left corner is (0, 0)."""

    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float

    def resized(self, width: int, height: int) -> "Pinhole":
        """The same camera with its image resampled to another size."""
        x, y = width / self.width, height / self.height
        return Pinhole(width, height, self.fx * x, self.fy * y, self.cx * x, self.cy * y)


@dataclass(frozen=True)
class Lens:
    """A camera matrix as in Pinhole, applied after a distortion; None: no distortion."""

    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float
    distortion: Distortion | None = None

    def resized(self, width: int, height: int) -> "Lens":
        """The same lens with its image resampled to another size."""
        camera = self.matrix.resized(width, height)
        return replace(self, width=width, height=height, fx=camera.fx, fy=camera.fy, cx=camera.cx, cy=camera.cy)

    @property
    def matrix(self) -> Pinhole:
        """The camera matrix, which is applied after the distortion."""
        return Pinhole(self.width, self.height, self.fx, self.fy, self.cx, self.cy)

    @cached_property
    def pinhole(self) -> Pinhole:
        """The camera that photographs are undistorted to: equal focal lengths, the largest size without blank pixels.

        As COLMAP's undistorter with default options. SceneError if no part of the image remains.
        """
        if self.distortion is None:
            return self.matrix
        if isinstance(self.distortion, Equirectangular):
            raise SceneError("is a spherical photograph, which has no pinhole camera")
        rows, columns = np.arange(self.height) + 0.5, np.arange(self.width) + 0.5
        with np.errstate(all="ignore"):  # invalid lenses: non-finite values are dropped below
            left = self._straight(np.full_like(rows, 0.5), rows)[:, 0]
            right = self._straight(np.full_like(rows, self.width - 0.5), rows)[:, 0]
            top = self._straight(columns, np.full_like(columns, 0.5))[:, 1]
            bottom = self._straight(columns, np.full_like(columns, self.height - 0.5))[:, 1]
        width = int(max(1.0, self.width * _scale(self.cx, self.width, left, right)))
        height = int(max(1.0, self.height * _scale(self.cy, self.height, top, bottom)))
        if max(width, height) > MAX_SIDE:
            raise SceneError(f"the undistorted photograph would be {width}x{height}: scale the photographs down")
        cx, cy = self.cx * width / self.width, self.cy * height / self.height
        return Pinhole(width, height, self.fx, self.fy, cx, cy)

    def _straight(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Converts pixels of the photograph to those of a pinhole camera with the same matrix, [N, 2] or NaN."""
        assert self.distortion is not None
        focal, center = np.array([self.fx, self.fy]), np.array([self.cx, self.cy])
        return self.distortion.undistort((np.stack([x, y], axis=-1) - center) / focal) * focal + center


def _scale(center: float, size: int, low: np.ndarray, high: np.ndarray) -> float:
    """Scale factor of one side, from the images of its two borders."""
    low, high = low[np.isfinite(low)], high[np.isfinite(high)]
    if not len(low) or not len(high):
        raise SceneError(
            f"its camera has a distortion {IMPOSSIBLE}: it cannot be undone at the border; calibrate it again"
        )
    with np.errstate(all="ignore"):  # invalid lenses, as above
        inverse = np.maximum(center / (center - low.max()), (size - 0.5 - center) / (high.min() - center))
        return float(np.clip(1 / inverse, MIN_SCALE, MAX_SCALE))
