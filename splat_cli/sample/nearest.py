"""Nearest intersection of rays with shapes."""

from collections.abc import Iterator, Sequence

import numpy as np

from splat_cli.sample.shapes import Shape
from splat_cli.sample.vectors import dot


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
    """Columns `index` of points [3, n]; [3, 1] is for all. (`take` is several times faster than an index.)"""
    return points if points.shape[1] == 1 else points.take(index, axis=1)


def _near(shape: Shape, origins: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Indices of the rays that pass through the bounding sphere of the shape."""
    offset = shape.center - origins
    along = dot(directions, offset)
    beyond = dot(offset, offset) - shape.radius**2  # squared length of the tangents
    if beyond.size == 1 and beyond[0] > 0:  # seen from one point outside
        return np.flatnonzero(along > np.sqrt(beyond[0]))
    return np.flatnonzero((along * along > beyond) & (along > -shape.radius))
