"""Cameras with lenses, and the pinhole cameras to which they are undistorted."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from splat_cli.errors import SceneError
from splat_cli.scene.lens.distortion import Distortion, Equirectangular, Polynomial

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


_MARGIN = 0.15
"""Relative to the image's size: splats up to this far outside are projected as exactly as those inside."""
_ANGLES = np.linspace(0, np.pi, 3000, endpoint=False)[1:]
_AZIMUTHS = np.linspace(0, 2 * np.pi, 32, endpoint=False)
_CIRCLE = np.deg2rad(125)
"""If the corners lie farther from the axis, the picture is taken to be a circle that reaches to the edges."""
_STEP = 1e-5
_BESIDE = 0.2
"""Radians past the field of view of a wide lens: splats there may still reach into the image."""


@dataclass(frozen=True)
class FieldOfView:
    """Largest angle to the axis at which the lens is used, in radians.

    is_whole: all corners of the image are within it; otherwise the image has pixels that no ray reaches.
    radius and slope: of the distortion without its polynomial terms at this angle: distance from the axis, and its
    derivative with respect to the angle. Kernels continue it linearly (cuda_src/lens/lens.cuh).
    """

    angle: float
    is_whole: bool
    radius: float
    slope: float

    @property
    def cull_angle(self) -> float:
        """Splats at larger angles to the axis are not drawn: behind a camera that sees less than 180 degrees."""
        return max(np.pi / 2, self.angle + _BESIDE) if self.angle > np.pi / 2 - _BESIDE else np.pi / 2


def field_of_view(
    distortion: Distortion | None, focal: tuple[float, float], center: tuple[float, float], size: tuple[int, int]
) -> FieldOfView:
    """Field of view of a camera with this matrix and image size; None: a pinhole camera."""
    (width, height), middle = size, (size[0] / 2, size[1] / 2)
    corners = [(x, y) for x in (0, width) for y in (0, height)]
    edges = [(0, middle[1]), (width, middle[1]), (middle[0], 0), (middle[0], height)]
    reaches = (np.linalg.norm((np.array(points) - center) / focal, axis=1).max() for points in (corners, edges))
    corner, edge = (float(f"{reach:.6g}") for reach in reaches)
    key = distortion or Polynomial(), corner, edge
    if key not in _FOUND:
        _FOUND[key] = _field_of_view(*key)
    return _FOUND[key]


_FOUND: dict[tuple[Distortion, float, float], FieldOfView] = {}


def _field_of_view(distortion: Distortion, corner: float, edge: float) -> FieldOfView:
    """corner, edge: distances of the farthest corner and middle of an edge from the centre, in focal lengths."""
    if isinstance(distortion, Equirectangular):
        return FieldOfView(np.pi, True, 1.0, 1.0)
    with np.errstate(all="ignore"):  # beyond the angles at which formulas hold
        radii = np.linalg.norm(distortion.project(_rays(_ANGLES[:, None], _AZIMUTHS)), axis=-1)
        grows = (np.diff(radii, axis=0, prepend=0) > 0).all(axis=1)
        fold = _first(~grows) - 1
        is_circle = _ANGLES[min(fold, _first((radii >= corner).all(axis=1)))] > _CIRCLE
        reach = (1 + _MARGIN) * (edge if is_circle else corner)
        last = max(min(fold, _first((radii >= reach).all(axis=1))), 0)
        angle, is_whole = float(_ANGLES[last]), bool((radii[last] >= corner).all())
        base = Polynomial(fisheye=distortion.fisheye) if isinstance(distortion, Polynomial) else distortion
        below, radius, above = base.project(_rays(angle + _STEP * np.array([-1, 0, 1]), np.zeros(1)))[:, 0]
    return FieldOfView(angle, is_whole, float(radius), float((above - below) / (2 * _STEP)))


def _first(flags: np.ndarray) -> int:
    """Index of the first true value, or of the last value if none is true."""
    return int(flags.argmax()) if flags.any() else len(flags) - 1


def _rays(angles: np.ndarray, azimuths: np.ndarray) -> np.ndarray:
    """Unit rays [..., 3] at these angles to the axis."""
    sine, cosine = np.sin(angles), np.cos(angles)
    return np.stack(np.broadcast_arrays(sine * np.cos(azimuths), sine * np.sin(azimuths), cosine), axis=-1)


def spherical_lens(width: int, height: int) -> Lens:
    """Lens of equirectangular photographs, 360 by 180 degrees."""
    focal = width / (2 * math.pi), height / math.pi
    return Lens(width, height, *focal, width / 2, height / 2, Equirectangular())
