"""Spheres, boxes and cylinders: affine copies of three unit shapes.

Arrays of points and directions are float32 [3, n], one row a coordinate. Rays start outside a shape, but for the
room, which is seen from within.
"""

from collections.abc import Callable

import numpy as np

from splat_cli.sample.vectors import dot, largest_axis, linear, turned

EPSILON = 1e-3
"""Offset of ray origins from surfaces, metres."""

Texture = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(points [3, n] in the shape's own axes, metres from its centre; faces [n]) -> albedo, linear RGB [3, n]."""


class Shape:
    """A unit shape of half size `size`, rotated by `turn` degrees about the vertical, at `center` (metres, z up).

    mirror: share of light reflected head-on, in the colour `tint`; the rest is diffuse, coloured by `texture`. The
    light map of a face has `texels` x `texels` entries.
    """

    num_faces = 1

    def __init__(
        self,
        center: tuple[float, float, float],
        size: tuple[float, float, float],
        texture: Texture,
        turn: float = 0.0,
        mirror: float = 0.0,
        tint: tuple[float, float, float] = (1.0, 1.0, 1.0),
        texels: int = 16,
    ) -> None:
        cos, sin = np.cos(np.radians(turn)), np.sin(np.radians(turn))
        axes = np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]], np.float32)
        self.center = np.array(center, np.float32)[:, None]
        self.size = np.array(size, np.float32)[:, None]
        self.radius = float(np.linalg.norm(self.size))
        self.texture, self.mirror, self.texels = texture, mirror, texels
        self.tint = np.array(tint, np.float32)[:, None]
        self.to_world = linear(axes * self.size.T)
        self.to_local = linear((axes / self.size.T).T)
        self.to_normals = linear(axes / self.size.T)

    def local(self, points: np.ndarray) -> np.ndarray:
        """World points in the unit shape's space."""
        return turned(self.to_local, points - self.center)

    def world(self, points: np.ndarray) -> np.ndarray:
        """Points of the unit shape in the world."""
        return turned(self.to_world, points) + self.center

    def normals(self, points: np.ndarray) -> np.ndarray:
        """World normals, of length 1, at points of the unit shape's surface."""
        normals = turned(self.to_normals, self.unit_normals(points))
        return normals / np.sqrt(dot(normals, normals))

    def albedo(self, points: np.ndarray, faces: np.ndarray) -> np.ndarray:
        """Diffuse colour [3, n] at points of the unit shape's surface."""
        return self.texture(points * self.size, faces)

    def distances(self, origins: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """Distance along each ray to the shape, in units of its direction; infinite if missed."""
        with np.errstate(all="ignore"):  # a ray that misses may divide by zero: its comparison is false
            enter, leave = self.unit_interval(self.local(origins), turned(self.to_local, directions))
            return np.where((enter < leave) & (enter > EPSILON), enter, np.float32(np.inf))

    def unit_interval(self, origins: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Entry and exit of each ray in the unit shape; NaN if missed."""
        raise NotImplementedError

    def unit_normals(self, points: np.ndarray) -> np.ndarray:
        """Normals at points of the unit shape's surface."""
        raise NotImplementedError

    def unwrap(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Face and light-map coordinates u, v in 0..1 of points of the unit shape's surface."""
        raise NotImplementedError

    def wrap(self, face: int, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The inverse of `unwrap` for one face."""
        raise NotImplementedError


class Sphere(Shape):
    """x^2 + y^2 + z^2 <= 1."""

    def unit_interval(self, origins: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return _roots(origins, directions)

    def unit_normals(self, points: np.ndarray) -> np.ndarray:
        return points

    def unwrap(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.zeros(points.shape[1], np.int64), _turn(points), np.clip(points[2] / 2 + 0.5, 0, 1)

    def wrap(self, face: int, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        z = 2 * v - 1
        ring = np.sqrt(1 - z * z)
        return np.stack([ring * np.cos(2 * np.pi * u), ring * np.sin(2 * np.pi * u), z])


class Cylinder(Shape):
    """x^2 + y^2 <= 1 and |z| <= 1. Faces: side, bottom, top."""

    num_faces = 3

    def unit_interval(self, origins: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        enter, leave = _roots(origins[:2], directions[:2])
        slab_enter, slab_leave = _slab(origins[2], directions[2])
        return np.maximum(enter, slab_enter), np.minimum(leave, slab_leave)

    def unit_normals(self, points: np.ndarray) -> np.ndarray:
        x, y, z = points
        cap = z * z > x * x + y * y
        return np.stack([np.where(cap, 0, x), np.where(cap, 0, y), np.where(cap, np.sign(z), 0)])

    def unwrap(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        x, y, z = points
        cap = z * z > x * x + y * y
        faces = np.where(cap, 1 + (z > 0), 0)
        u, v = np.where(cap, x / 2 + 0.5, _turn(points)), np.where(cap, y, z) / 2 + 0.5
        return faces, np.clip(u, 0, 1), np.clip(v, 0, 1)

    def wrap(self, face: int, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        if face == 0:
            return np.stack([np.cos(2 * np.pi * u), np.sin(2 * np.pi * u), 2 * v - 1])
        x, y = 2 * u - 1, 2 * v - 1
        inward = 0.99 / np.maximum(np.hypot(x, y), 0.99)  # the corners of the square repeat the rim
        return np.stack([x * inward, y * inward, np.full_like(x, 2 * face - 3)])


class Box(Shape):
    """|x|, |y|, |z| <= 1. Faces: -x, +x, -y, +y, -z, +z."""

    num_faces = 6

    def unit_interval(self, origins: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        enter, leave = _slab(origins, directions)
        return enter.max(axis=0), leave.min(axis=0)

    def unit_normals(self, points: np.ndarray) -> np.ndarray:
        along_x, along_y = largest_axis(points)
        return np.where([along_x, along_y, ~(along_x | along_y)], np.sign(points), np.float32(0))

    def unwrap(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        x, y, z = points
        along_x, along_y = largest_axis(points)
        faces = np.where(along_x, x > 0, np.where(along_y, 2 + (y > 0), 4 + (z > 0)))
        u, v = np.where(along_x, y, np.where(along_y, z, x)), np.where(along_x, z, np.where(along_y, x, y))
        return faces, np.clip(u / 2 + 0.5, 0, 1), np.clip(v / 2 + 0.5, 0, 1)

    def wrap(self, face: int, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        points = np.empty((3, u.size), np.float32)
        axis = face // 2
        points[axis] = 2 * (face % 2) - 1
        points[(axis + 1) % 3], points[(axis + 2) % 3] = 2 * u - 1, 2 * v - 1
        return points


class Room(Box):
    """A box seen from within."""

    def distances(self, origins: np.ndarray, directions: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            leave = self.unit_interval(self.local(origins), turned(self.to_local, directions))[1]
        return np.fmax(leave, 0)  # a ray may start behind a wall, under a thing that stands against it

    def unit_normals(self, points: np.ndarray) -> np.ndarray:
        return -super().unit_normals(points)


def _roots(origins: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Intersections of rays with the unit sphere, or the unit circle for two rows."""
    a, b, c = dot(directions, directions), dot(directions, origins), dot(origins, origins) - 1
    root = np.sqrt(b * b - a * c)
    return (-b - root) / a, (-b + root) / a


def _slab(origins: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Intersections of rays with the planes -1 and 1 of each row."""
    low, high = (-1 - origins) / directions, (1 - origins) / directions
    return np.minimum(low, high), np.maximum(low, high)


def _turn(points: np.ndarray) -> np.ndarray:
    """Angle about the z axis, 0..1."""
    return np.arctan2(points[1], points[0]) / (2 * np.pi) % 1
