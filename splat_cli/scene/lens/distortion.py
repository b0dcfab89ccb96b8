"""Distortion functions of all COLMAP camera models, in float64 NumPy.

A distortion maps the undistorted place of a ray, (x / z, y / z), to the distorted one; the camera matrix follows.
`project` and `unproject` do the same for rays in any direction, also beyond 90 degrees from the axis.
`cuda_src/image/camera_models.cuh` has the same formulas for photographs, `cuda_src/lens/` for splats. Sources:
COLMAP's and OpenCV's descriptions of their camera models; Devernay & Faugeras 2001 (FOV); Fitzgibbon 2001 (division);
Khomutenko et al. 2016 (EUCM); the description of FTheta in gsplat.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from splat_cli.io.json_input import number, numbers

NUM_COEFFICIENTS = 16

_MOST = 6  # radial coefficients
_MAX_ITERATIONS = 100
_TRUST_RADIUS = 0.1  # step of the differences: absolute, and relative to the point's distance from the axis
_STEP_DONE = 1e-12
_DIFFERENCE = 1e-6


class Distortion(Protocol):
    """Distortion of a lens. Points are float64 [..., 2], rays [..., 3]; NaN where a point has no image or no ray."""

    @property
    def family(self) -> int:
        """Number of the family in cuda_src/image/camera_models.cuh."""

    def distort(self, points: np.ndarray) -> np.ndarray:
        """Distorted coordinates of undistorted points."""

    def undistort(self, points: np.ndarray) -> np.ndarray:
        """Undistorted coordinates of distorted points."""

    def project(self, rays: np.ndarray) -> np.ndarray:
        """Distorted coordinates of rays of any length: camera axes, z along the lens' axis."""

    def unproject(self, points: np.ndarray) -> np.ndarray:
        """Rays of length 1 of distorted points."""

    def coefficients(self) -> tuple[float, ...]:
        """Parameters of the kernel, at most NUM_COEFFICIENTS numbers."""


@dataclass(frozen=True)
class Polynomial:
    """Radial, rational, tangential and thin-prism terms, after an equidistant fisheye projection or without one.

    radial: of r^2, r^4, ... (up to 6). rational: the denominator's (up to 3). tangential: p1, p2. prism: of r^2 and r^4
    for x, then for y. skew: share of the distorted y that is added to x, where columns are not perpendicular to rows.
    With `tangential_last` the tangential and prism terms see the radially distorted point, else the original one.
    """

    radial: tuple[float, ...] = ()
    rational: tuple[float, ...] = ()
    tangential: tuple[float, float] = (0.0, 0.0)
    prism: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    skew: float = 0.0
    fisheye: bool = False
    tangential_last: bool = False

    @property
    def family(self) -> int:
        return int(self.fisheye) + 2 * int(self.tangential_last)

    def or_none(self) -> "Polynomial | None":
        """This distortion, or None if it leaves all points in place."""
        return self if self.fisheye or any(self.coefficients()) else None

    def coefficients(self) -> tuple[float, ...]:
        radial = (*self.radial, *(0.0,) * (6 - len(self.radial)))
        rational = (*self.rational, *(0.0,) * (3 - len(self.rational)))
        return (*radial, *rational, *self.tangential, *self.prism, self.skew)

    def distort(self, points: np.ndarray) -> np.ndarray:
        return self._apply(_equidistant(points) if self.fisheye else points)

    def undistort(self, points: np.ndarray) -> np.ndarray:
        straight = self._invert(points)
        return _from_equidistant(straight) if self.fisheye else straight

    def project(self, rays: np.ndarray) -> np.ndarray:
        plane, z = rays[..., :2], rays[..., 2:]
        if self.fisheye:
            radius = np.linalg.norm(plane, axis=-1, keepdims=True)
            return self._apply(plane * _ratio(np.arctan2(radius, z), radius, 1.0))
        return self._apply(plane / np.where(z > 0, z, np.nan))

    def unproject(self, points: np.ndarray) -> np.ndarray:
        straight = self._invert(points)
        if not self.fisheye:
            return _unit(np.concatenate([straight, np.ones_like(straight[..., :1])], axis=-1))
        angle = np.linalg.norm(straight, axis=-1, keepdims=True)
        angle = np.where(angle <= np.pi, angle, np.nan)
        return np.concatenate([straight * _ratio(np.sin(angle), angle, 1.0), np.cos(angle)], axis=-1)

    def _apply(self, points: np.ndarray) -> np.ndarray:
        r2 = (points**2).sum(axis=-1, keepdims=True)
        radial = _series(self.radial, r2) / _series(self.rational, r2) * points
        base = radial if self.tangential_last else points
        x, y = base[..., :1], base[..., 1:]
        r2 = x * x + y * y
        (p1, p2), (s1, s2, s3, s4) = self.tangential, self.prism
        dx = 2 * p1 * x * y + p2 * (r2 + 2 * x * x) + (s1 + s2 * r2) * r2
        dy = 2 * p2 * x * y + p1 * (r2 + 2 * y * y) + (s3 + s4 * r2) * r2
        x, y = radial[..., :1] + dx, radial[..., 1:] + dy
        return np.concatenate([x + self.skew * y, y], axis=-1)

    def _invert(self, points: np.ndarray) -> np.ndarray:
        """Newton's method from the distorted point, in steps short enough to stay on the branch around the axis."""
        found = points.copy()
        for _ in range(_MAX_ITERATIONS):
            step = np.linalg.solve(self._jacobian(found), (self._apply(found) - points)[..., None])[..., 0]
            length = np.linalg.norm(step, axis=-1, keepdims=True)
            limit = _TRUST_RADIUS * np.maximum(1, np.linalg.norm(found, axis=-1, keepdims=True))
            found = found - step * np.minimum(1, limit / np.maximum(length, 1e-300))
            if (length < _STEP_DONE).all():
                break
        return np.where(length < 1e-5, found, np.nan)

    def _jacobian(self, points: np.ndarray) -> np.ndarray:
        """Derivatives float64 [..., 2, 2] by central differences; singular ones are made regular."""
        columns = [
            (self._apply(points + offset) - self._apply(points - offset)) / (2 * _DIFFERENCE)
            for offset in _DIFFERENCE * np.eye(2)
        ]
        jacobian = np.stack(columns, axis=-1)
        singular = ~(np.abs(np.linalg.det(jacobian)) > 1e-12)
        return np.where(singular[..., None, None], np.eye(2), jacobian)


@dataclass(frozen=True)
class Fov:
    """The distorted radius is the ray's angle divided by the field of view, `omega` radians."""

    omega: float
    family = 4

    def coefficients(self) -> tuple[float, ...]:
        return self.omega, 2 * np.tan(self.omega / 2)

    def distort(self, points: np.ndarray) -> np.ndarray:
        radius = np.linalg.norm(points, axis=-1, keepdims=True)
        tangent = 2 * np.tan(self.omega / 2)
        return points * _ratio(np.arctan(radius * tangent), radius * self.omega, tangent / self.omega)

    def undistort(self, points: np.ndarray) -> np.ndarray:
        radius = np.linalg.norm(points, axis=-1, keepdims=True)
        tangent = 2 * np.tan(self.omega / 2)
        return points * _ratio(np.tan(radius * self.omega), radius * tangent, self.omega / tangent)

    def project(self, rays: np.ndarray) -> np.ndarray:
        plane, tangent = rays[..., :2], 2 * np.tan(self.omega / 2)
        radius = np.linalg.norm(plane, axis=-1, keepdims=True)
        return plane * _ratio(np.arctan2(radius * tangent, rays[..., 2:]), radius * self.omega, tangent / self.omega)

    def unproject(self, points: np.ndarray) -> np.ndarray:
        radius, tangent = np.linalg.norm(points, axis=-1, keepdims=True), 2 * np.tan(self.omega / 2)
        angle = np.where(radius * self.omega <= np.pi, radius * self.omega, np.nan)
        plane = points * _ratio(np.sin(angle), radius * tangent, self.omega / tangent)
        return _unit(np.concatenate([plane, np.cos(angle)], axis=-1))


@dataclass(frozen=True)
class Division:
    """Undistorted = distorted / (1 + k r^2), r of the distorted point."""

    k: float
    family = 5

    def coefficients(self) -> tuple[float, ...]:
        return (self.k,)

    def distort(self, points: np.ndarray) -> np.ndarray:
        r2 = (points**2).sum(axis=-1, keepdims=True)
        with np.errstate(invalid="ignore"):
            return points * 2 / (1 + np.sqrt(1 - 4 * self.k * r2))

    def undistort(self, points: np.ndarray) -> np.ndarray:
        return points / (1 + self.k * (points**2).sum(axis=-1, keepdims=True))

    def project(self, rays: np.ndarray) -> np.ndarray:
        plane, z = rays[..., :2], rays[..., 2:]
        with np.errstate(invalid="ignore", divide="ignore"):
            root = np.sqrt(z * z - 4 * self.k * (plane**2).sum(axis=-1, keepdims=True))
            return 2 * plane / np.where(z + root > 0, z + root, np.nan)

    def unproject(self, points: np.ndarray) -> np.ndarray:
        return _unit(np.concatenate([points, 1 + self.k * (points**2).sum(axis=-1, keepdims=True)], axis=-1))


@dataclass(frozen=True)
class Eucm:
    """The enhanced unified camera model: a projection onto a quadric; alpha 0 is the pinhole."""

    alpha: float
    beta: float
    family = 6

    def coefficients(self) -> tuple[float, ...]:
        return (self.alpha, self.beta)

    def distort(self, points: np.ndarray) -> np.ndarray:
        r2 = (points**2).sum(axis=-1, keepdims=True)
        with np.errstate(invalid="ignore"):
            depth = self.alpha * np.sqrt(self.beta * r2 + 1) + 1 - self.alpha
        return points / np.where(depth > 0, depth, np.nan)

    def undistort(self, points: np.ndarray) -> np.ndarray:
        r2 = self.beta * (points**2).sum(axis=-1, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            below = self.alpha * np.sqrt(1 - (2 * self.alpha - 1) * r2) + 1 - self.alpha
            depth = (1 - self.alpha**2 * r2) / below
        return points / np.where(depth > 0, depth, np.nan)

    def project(self, rays: np.ndarray) -> np.ndarray:
        plane, z = rays[..., :2], rays[..., 2:]
        root = np.sqrt(self.beta * (plane**2).sum(axis=-1, keepdims=True) + z * z)
        depth = self.alpha * root + (1 - self.alpha) * z
        return plane / np.where(depth > 0, depth, np.nan)

    def unproject(self, points: np.ndarray) -> np.ndarray:
        r2 = self.beta * (points**2).sum(axis=-1, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            below = self.alpha * np.sqrt(1 - (2 * self.alpha - 1) * r2) + 1 - self.alpha
            return _unit(np.concatenate([points, (1 - self.alpha**2 * r2) / below], axis=-1))


@dataclass(frozen=True)
class FTheta:
    """NVIDIA's fisheye model: the radius is a polynomial of the angle a to the axis, in radians.

    higher: radius = a + higher[0] a^2 + higher[1] a^3 + ..., up to a^5.
    """

    higher: tuple[float, ...] = ()
    family = 8

    def coefficients(self) -> tuple[float, ...]:
        return (*self.higher, *(0.0,) * (4 - len(self.higher)))

    def distort(self, points: np.ndarray) -> np.ndarray:
        return self.project(np.concatenate([points, np.ones_like(points[..., :1])], axis=-1))

    def undistort(self, points: np.ndarray) -> np.ndarray:
        radius = np.linalg.norm(points, axis=-1, keepdims=True)
        return _from_equidistant(points * _ratio(self._angle(radius), radius, 1.0))

    def project(self, rays: np.ndarray) -> np.ndarray:
        plane, z = rays[..., :2], rays[..., 2:]
        r = np.linalg.norm(plane, axis=-1, keepdims=True)
        return plane * _ratio(self._radius(np.arctan2(r, z)), r, 1.0)

    def unproject(self, points: np.ndarray) -> np.ndarray:
        radius = np.linalg.norm(points, axis=-1, keepdims=True)
        angle = self._angle(radius)
        angle = np.where(angle <= np.pi, angle, np.nan)
        return np.concatenate([points * _ratio(np.sin(angle), radius, 1.0), np.cos(angle)], axis=-1)

    def _radius(self, angle: np.ndarray) -> np.ndarray:
        return _series(self.higher, angle) * angle

    def _angle(self, radius: np.ndarray) -> np.ndarray:
        """Inverse of `_radius` by Newton's method; NaN where it does not converge."""
        angle, slopes = radius.copy(), [1.0, *((power + 2) * c for power, c in enumerate(self.higher))]
        with np.errstate(all="ignore"):
            for _ in range(_MAX_ITERATIONS):
                step = (self._radius(angle) - radius) / np.polynomial.polynomial.polyval(angle, slopes)
                angle = angle - np.clip(step, -_TRUST_RADIUS, _TRUST_RADIUS)
                if (np.abs(step) < _STEP_DONE).all():
                    break
        return np.where(np.abs(step) < 1e-5, angle, np.nan)


@dataclass(frozen=True)
class Equirectangular:
    """Spherical photographs: longitude and latitude (down) in radians. They are not undistorted."""

    family = 7

    def coefficients(self) -> tuple[float, ...]:
        return ()

    def distort(self, points: np.ndarray) -> np.ndarray:
        return self.project(np.concatenate([points, np.ones_like(points[..., :1])], axis=-1))

    def undistort(self, points: np.ndarray) -> np.ndarray:
        rays = self.unproject(points)
        return rays[..., :2] / np.where(rays[..., 2:] > 0, rays[..., 2:], np.nan)

    def project(self, rays: np.ndarray) -> np.ndarray:
        x, y, z = np.moveaxis(rays, -1, 0)
        return np.stack([np.arctan2(x, z), np.arctan2(y, np.hypot(x, z))], axis=-1)

    def unproject(self, points: np.ndarray) -> np.ndarray:
        longitude, latitude = np.moveaxis(points, -1, 0)
        ahead = np.cos(latitude)
        return np.stack([ahead * np.sin(longitude), np.sin(latitude), ahead * np.cos(longitude)], axis=-1)


def _series(coefficients: tuple[float, ...], x: np.ndarray) -> np.ndarray:
    """1 + c1 x + c2 x^2 + ..."""
    total = np.zeros_like(x)
    for coefficient in reversed(coefficients):
        total = (total + coefficient) * x
    return 1 + total


def _ratio(numerator: np.ndarray, denominator: np.ndarray, at_zero: float) -> np.ndarray:
    """numerator / denominator, which tends to `at_zero` where both vanish."""
    tiny = np.abs(denominator) < 1e-9
    return np.where(tiny, at_zero, numerator / np.where(tiny, 1, denominator))


def _equidistant(points: np.ndarray) -> np.ndarray:
    """Equidistant projection: radius equal to the ray's angle to the axis, in radians."""
    radius = np.linalg.norm(points, axis=-1, keepdims=True)
    return points * _ratio(np.arctan(radius), radius, 1.0)


def _from_equidistant(points: np.ndarray) -> np.ndarray:
    """Inverse; angles of 90 degrees and more, which have no pinhole image, are unchanged, as in COLMAP."""
    angle = np.linalg.norm(points, axis=-1, keepdims=True)
    return points * np.where(np.cos(angle) > 0, _ratio(np.tan(angle), angle, 1.0), 1.0)


_CLASSES = {
    "polynomial": Polynomial,
    "fov": Fov,
    "division": Division,
    "eucm": Eucm,
    "ftheta": FTheta,
    "spherical": Equirectangular,
}


def distortion_to_dict(distortion: Distortion) -> dict[str, Any]:
    """Name of the family, as `family`, and its fields, for JSON."""
    names = {kind: name for name, kind in _CLASSES.items()}
    return {"family": names[type(distortion)], **vars(distortion)}


def distortion_from_dict(entry: dict[str, Any]) -> Distortion:
    """The inverse of `distortion_to_dict`. KeyError, TypeError or ValueError for anything else."""
    kind = _CLASSES[entry["family"]]
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        value, default = entry[field.name], field.default
        if isinstance(default, bool):
            if not isinstance(value, bool):
                raise ValueError(f"{field.name} is neither true nor false")
            values[field.name] = value
        elif isinstance(default, tuple):
            if not isinstance(value, list) or len(value) > _MOST or (default and len(value) != len(default)):
                raise ValueError(f"{field.name} is not a list of so many numbers")
            values[field.name] = tuple(numbers(entry, field.name, len(value)).tolist())
        else:
            values[field.name] = number(entry, field.name)
    distortion: Distortion = kind(**values)
    return distortion


def _unit(rays: np.ndarray) -> np.ndarray:
    """Rays of length 1."""
    return rays / np.linalg.norm(rays, axis=-1, keepdims=True)
