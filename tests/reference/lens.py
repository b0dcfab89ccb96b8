"""COLMAP's camera models and the spherical one, for rays in any direction; written from COLMAP's and OpenCV's manuals.

A model maps a ray (x, y, z) to the plane before fx, fy, cx, cy. Its radial part depends on r = |(x, y)| and z.
"""

from dataclasses import dataclass

import numpy as np

from tests.reference.inputs import Camera

Array = np.ndarray


@dataclass(frozen=True)
class Lens:
    """model and its parameters after fx, fy, cx, cy, in COLMAP's order.

    max_angle: from here on, the radius before polynomial terms is continued linearly in the angle, and the polynomial
    image in proportion to the radius. cull_angle: splats at larger angles to the axis are invisible. rotation, shift:
    of the camera while the picture is taken from row to row, about and along its axes at mid-height.
    """

    model: str
    params: tuple[float, ...]
    max_angle: float
    cull_angle: float
    rotation: tuple[float, float, float] = (0.0, 0.0, 0.0)
    shift: tuple[float, float, float] = (0.0, 0.0, 0.0)


def plane(lens: Lens, rays: Array) -> Array:
    """[..., 3] to [..., 2]."""
    x, y, z = np.moveaxis(rays, -1, 0)
    if lens.model == "EQUIRECTANGULAR":
        return np.stack([np.arctan2(x, z), np.arcsin(y / np.linalg.norm(rays, axis=-1))], axis=-1)
    angle = np.arccos(z / np.linalg.norm(rays, axis=-1))
    limit, step = lens.max_angle, 1e-6
    slope = (_radius(lens, limit + step) - _radius(lens, limit - step)) / (2 * step)
    inner = _radius(lens, np.minimum(angle, limit))
    radius = np.where(angle > limit, _radius(lens, limit) + slope * (angle - limit), inner)
    direction = np.stack([x, y], axis=-1) / np.hypot(x, y)[..., None]
    largest = np.minimum(radius, _radius(lens, limit))[..., None]
    return _terms(lens, direction * largest) * radius[..., None] / largest


def _radius(lens: Lens, angle: Array) -> Array:
    """Distance from the axis at an angle to it, before polynomial terms."""
    p = lens.params
    if "FISHEYE" in lens.model:
        return angle
    if lens.model == "FTHETA":
        return angle + sum(c * angle ** (power + 2) for power, c in enumerate(p))
    if lens.model == "FOV":
        sine, cosine = 2 * np.sin(p[0] / 2) * np.sin(angle), np.cos(p[0] / 2) * np.cos(angle)
        return np.arctan2(sine, cosine) / p[0]
    if lens.model == "DIVISION":  # the smaller root of k tan(angle) R^2 - R + tan(angle) = 0
        return (np.cos(angle) - np.sqrt(np.cos(angle) ** 2 - 4 * p[0] * np.sin(angle) ** 2)) / (
            2 * p[0] * np.sin(angle)
        )
    if lens.model == "EUCM":
        depth = np.sqrt(p[1] * np.sin(angle) ** 2 + np.cos(angle) ** 2)
        return np.sin(angle) / (p[0] * depth + (1 - p[0]) * np.cos(angle))
    return np.tan(angle)


def _terms(lens: Lens, point: Array) -> Array:
    """Radial, tangential and thin-prism terms."""
    u, v = np.moveaxis(point, -1, 0)
    r2, p = u * u + v * v, lens.params
    match lens.model:
        case "SIMPLE_RADIAL" | "RADIAL" | "SIMPLE_RADIAL_FISHEYE" | "RADIAL_FISHEYE" | "OPENCV_FISHEYE":
            return point * (1 + sum(k * r2 ** (i + 1) for i, k in enumerate(p)))[..., None]
        case "OPENCV" | "FULL_OPENCV":
            k1, k2, p1, p2, k3, k4, k5, k6 = (*p, 0.0, 0.0, 0.0, 0.0)[:8]
            radial = (1 + k1 * r2 + k2 * r2**2 + k3 * r2**3) / (1 + k4 * r2 + k5 * r2**2 + k6 * r2**3)
            x = radial * u + 2 * p1 * u * v + p2 * (r2 + 2 * u * u)
            return np.stack([x, radial * v + 2 * p2 * u * v + p1 * (r2 + 2 * v * v)], axis=-1)
        case "THIN_PRISM_FISHEYE":
            k1, k2, p1, p2, k3, k4, sx, sy = p
            radial = 1 + k1 * r2 + k2 * r2**2 + k3 * r2**3 + k4 * r2**4
            x = radial * u + 2 * p1 * u * v + p2 * (r2 + 2 * u * u) + sx * r2
            return np.stack([x, radial * v + 2 * p2 * u * v + p1 * (r2 + 2 * v * v) + sy * r2], axis=-1)
        case "RAD_TAN_THIN_PRISM_FISHEYE":
            *k, p0, p1, s0, s1, s2, s3 = p
            radial = 1 + sum(c * r2 ** (i + 1) for i, c in enumerate(k))
            u, v = radial * u, radial * v
            r2 = u * u + v * v
            x = u + p0 * (2 * u * u + r2) + 2 * p1 * u * v + s0 * r2 + s1 * r2**2
            return np.stack([x, v + p1 * (2 * v * v + r2) + 2 * p0 * u * v + s2 * r2 + s3 * r2**2], axis=-1)
    return point


def pixels(lens: Lens, camera: Camera, positions: Array) -> Array:
    """Pixels [..., 2] of positions [..., 3] in camera coordinates, at mid-height if the camera moves.

    A point is seen when the row is taken in which it then appears.
    """
    focal, center = [camera.fx, camera.fy], [camera.cx, camera.cy]
    found: Array = plane(lens, positions) * focal + center
    for _ in range(60 if any(lens.rotation + lens.shift) else 0):
        times = np.clip(found[..., 1] / camera.height - 0.5, -1, 1)
        before, found = found, plane(lens, _at(lens, times, positions)) * focal + center
        if np.allclose(found, before, rtol=0, atol=1e-12, equal_nan=True):
            break
    return found


def _at(lens: Lens, times: Array, positions: Array) -> Array:
    """Positions in coordinates of the camera at times [...]."""
    total = term = positions - times[..., None] * lens.shift
    cross = np.cross(lens.rotation, np.eye(3))  # v @ cross is rotation x v
    for order in range(1, 20):  # the exponential series
        term = times[..., None] * (term @ cross) / order
        total = total + term
    return total
