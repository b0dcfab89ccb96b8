"""Crop regions: boxes and spheres."""

import math
from dataclasses import dataclass

import numpy as np

from splat_cli.errors import UsageError


@dataclass(frozen=True)
class Box:
    """A box from corner to corner, world units."""

    low: tuple[float, float, float]
    high: tuple[float, float, float]

    @property
    def center(self) -> tuple[float, float, float]:
        """The middle of the box."""
        x, y, z = (0.5 * (low + high) for low, high in zip(self.low, self.high, strict=True))
        return x, y, z

    def relative_to(self, origin: np.ndarray) -> "Box":
        """The box in coordinates from which `origin` [3] is subtracted."""
        (x0, y0, z0), (x1, y1, z1) = (np.subtract(corner, origin).tolist() for corner in (self.low, self.high))
        return Box((x0, y0, z0), (x1, y1, z1))

    def contains(self, points: np.ndarray) -> np.ndarray:
        """bool [P] for points [P, 3]."""
        inside = (points >= np.array(self.low)) & (points <= np.array(self.high))
        return np.logical_and.reduce(inside, axis=1)


@dataclass(frozen=True)
class Sphere:
    """A sphere: centre and radius, world units."""

    center: tuple[float, float, float]
    radius: float

    def relative_to(self, origin: np.ndarray) -> "Sphere":
        """The sphere in coordinates from which `origin` [3] is subtracted."""
        x, y, z = np.subtract(self.center, origin).tolist()
        return Sphere((x, y, z), self.radius)

    def contains(self, points: np.ndarray) -> np.ndarray:
        """bool [P] for points [P, 3]."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.linalg.norm(points - np.array(self.center), axis=1) <= self.radius


Crop = Box | Sphere


def parse_crop(text: str) -> Crop:
    """The sphere for `x,y,z,radius`, or the box for `x0,y0,z0,x1,y1,z1`. Raises UsageError."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if all(map(math.isfinite, values)):
        if len(values) == 4 and values[3] > 0:
            return Sphere((values[0], values[1], values[2]), values[3])
        if len(values) == 6 and all(low < high for low, high in zip(values[:3], values[3:], strict=True)):
            return Box((values[0], values[1], values[2]), (values[3], values[4], values[5]))
    raise UsageError(
        f"crop {text!r}: expected x,y,z,radius of a sphere or x0,y0,z0,x1,y1,z1 of a box, the lower corner first"
    )
