"""Spheres, boxes and cylinders, affine copies of three unit shapes, and their intersections with rays.

Points and directions are float32 [3, n], one row per coordinate. Rays start outside of a shape, except for the room,
which is seen from within.

Sums over coordinates are written out, because a matrix library would start more threads and NumPy's
reductions take longer. They add from x to z, so that pictures keep their bytes.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

EPSILON = 1e-3
"""Offset of ray origins from surfaces, metres."""
Texture = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(points [3, n] in the shape's own axes, metres from its centre; faces [n]) -> albedo, linear RGB [3, n]."""


def linear(matrix: np.ndarray) -> np.ndarray:
    """A matrix [3, 3] in the form for `turned`: a diagonal matrix becomes its diagonal [3, 1]."""
    diagonal = np.diag(matrix)
    return diagonal[:, None].copy() if (matrix == np.diag(diagonal)).all() else matrix


def turned(matrix: np.ndarray, points: np.ndarray) -> np.ndarray:
    """`matrix`, from `linear`, times points [3, n]."""
    if matrix.shape[1] == 1:
        return matrix * points
    result = matrix[:, :1] * points[0]
    result += matrix[:, 1:2] * points[1]
    result += matrix[:, 2:] * points[2]
    return result


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Inner products [n] of the columns of [3, n] or [2, n]; either may be [3, 1]."""
    result = a[0] * b[0]
    for row, other in zip(a[1:], b[1:], strict=True):
        result += row * other
    return result


def largest_axis(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether x is the largest coordinate of a point in magnitude; whether y is; bool [n] each. Else z is."""
    x, y, z = np.abs(points)
    along_x = (x >= y) & (x >= z)
    return along_x, ~along_x & (y >= z)


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
        inward = 0.99 / np.maximum(np.hypot(x, y), 0.99)  # corners of the square get the values of the rim
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
        return np.fmax(leave, 0)  # a ray may start behind a wall, under an object at the wall

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


def nearest(shapes: Sequence[Shape], origins: np.ndarray, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distance [n] and index [n] of the first shape along rays of unit direction.

    origins: [3, 1] or [3, n]. Shape 0 is the room, which every ray meets.
    """
    best = shapes[0].distances(origins, directions)
    which = np.zeros(best.shape, np.int16)
    for i, shape in enumerate(shapes[1:], 1):
        index = _near(shape, origins, directions)
        if index.size == 0:
            continue
        distances = shape.distances(_of(origins, index), _of(directions, index))
        closer = distances < best[index]
        best[index[closer]] = distances[closer]
        which[index[closer]] = i
    return best, which


def by_shape(which: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """The shapes that rays meet, each with the indices of its rays. which: [n], from `nearest`."""
    order = np.argsort(which, kind="stable")
    counts = np.bincount(which)
    ends = np.cumsum(counts)
    for i in np.flatnonzero(counts):
        yield int(i), order[ends[i] - counts[i] : ends[i]]


def blocked(shapes: Sequence[Shape], origins: np.ndarray, directions: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Whether a shape other than the room is within `limits` [n] of the origins [3, n]; bool [n]."""
    hit = np.zeros(limits.shape, bool)
    for shape in shapes[1:]:
        index = _near(shape, origins, directions)
        hit[index] |= shape.distances(_of(origins, index), _of(directions, index)) < limits[index]
    return hit


def _of(points: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Columns `index` of points [3, n], or the only column. (`take` is several times faster than an index.)"""
    return points if points.shape[1] == 1 else points.take(index, axis=1)


def _near(shape: Shape, origins: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Indices of the rays that pass through the bounding sphere of the shape."""
    offset = shape.center - origins
    along = dot(directions, offset)
    beyond = dot(offset, offset) - shape.radius**2  # squared length of the tangents
    if beyond.size == 1 and beyond[0] > 0:  # seen from one point outside
        return np.flatnonzero(along > np.sqrt(beyond[0]))
    return np.flatnonzero((along * along > beyond) & (along > -shape.radius))
