"""Ray tracing: intersections and colours."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from splat_cli.sample.light import LightMaps
from splat_cli.sample.shapes import EPSILON, Shape, by_shape, dot, nearest
from splat_cli.sample.surfaces import room_glow


@dataclass
class _Mirrored:
    """Reflections on one shape: indices of the rays, start and direction of the reflected rays, tint and weight."""

    index: np.ndarray
    origins: np.ndarray
    directions: np.ndarray
    tint: np.ndarray
    reflectance: np.ndarray


def radiance(
    shapes: Sequence[Shape], light: LightMaps, origins: np.ndarray, directions: np.ndarray, bounces: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Linear colour [3, n] seen along rays with directions of length 1, and the points [3, n] they meet."""
    distance, which = nearest(shapes, origins, directions)
    points = origins + distance * directions
    colors = np.zeros_like(points)
    mirrors: list[_Mirrored] = []
    for i, index in by_shape(which):
        shape, met = shapes[i], points.take(index, axis=1)
        place = shape.local(met)
        faces, u, v = shape.unwrap(place)
        seen = shape.albedo(place, faces) * light.at(i, faces, u, v)
        if i == 0:
            seen += room_glow(place * shape.size, faces)
        if shape.mirror > 0 and bounces > 0:
            mirrors.append(_mirrored(shape, index, met, place, directions.take(index, axis=1)))
        colors[:, index] = seen
    if mirrors:
        _add_reflections(colors, shapes, light, mirrors, bounces - 1)
    return colors, points


def _mirrored(shape: Shape, index: np.ndarray, met: np.ndarray, place: np.ndarray, arriving: np.ndarray) -> _Mirrored:
    normals = shape.normals(place)
    facing = dot(normals, arriving)
    reflectance = shape.mirror + (1 - shape.mirror) * 0.6 * np.clip(1 + facing, 0, 1) ** 5  # Schlick's approximation
    return _Mirrored(index, met + 2 * EPSILON * normals, arriving - 2 * facing * normals, shape.tint, reflectance)


def _add_reflections(
    colors: np.ndarray, shapes: Sequence[Shape], light: LightMaps, mirrors: list[_Mirrored], bounces: int
) -> None:
    """Mix reflections into the diffuse colours [3, n]; the reflections of all shapes are traced at once."""
    origins = np.concatenate([mirror.origins for mirror in mirrors], axis=1)
    directions = np.concatenate([mirror.directions for mirror in mirrors], axis=1)
    reflected, _ = radiance(shapes, light, origins, directions, bounces)
    ends = np.cumsum([mirror.index.size for mirror in mirrors])
    for mirror, part in zip(mirrors, np.split(reflected, ends[:-1], axis=1), strict=True):
        seen = colors.take(mirror.index, axis=1)
        colors[:, mirror.index] = seen + (part * mirror.tint - seen) * mirror.reflectance
