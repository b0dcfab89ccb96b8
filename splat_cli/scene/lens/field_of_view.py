"""Field of view of a lens: the angles at which its formulas hold, and the image of the largest."""

from dataclasses import dataclass

import numpy as np

from splat_cli.scene.lens.distortion import Distortion, Equirectangular, Polynomial

_MARGIN = 0.15
"""Of the image's size: splats so far outside are projected as exactly as those inside."""
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
