"""Ray tracing: intersections and colours, with diffuse light baked into a light map per face.

Direct light of the lamps with soft shadows, one diffuse bounce, and a constant for later bounces.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from splat_cli.sample.room import lamps
from splat_cli.sample.shapes import EPSILON, Shape, blocked, by_shape, dot, nearest
from splat_cli.sample.surfaces import room_glow

AMBIENT = np.array([[0.12], [0.1], [0.08]], np.float32)
BOUNCE_RAYS = 24
CHUNK = 8192


class LightMaps:
    """Irradiance / pi of every face; the product with the albedo is the outgoing radiance."""

    def __init__(self, shapes: Sequence[Shape], light: np.ndarray) -> None:
        """`light` [3, n] at the texels of all shapes, in the order of `_texels`."""
        ends = np.cumsum([shape.num_faces * shape.texels**2 for shape in shapes])
        self.maps = []
        for shape, values in zip(shapes, np.split(light, ends[:-1], axis=1), strict=True):
            faces = values.reshape(3, shape.num_faces, shape.texels, shape.texels)
            self.maps.append(np.pad(faces, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge"))

    def at(self, shape: int, faces: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Bilinear interpolation, [3, n]."""
        side = self.maps[shape].shape[2]
        x, y = u * (side - 2) + np.float32(0.5), v * (side - 2) + np.float32(0.5)
        column, row = np.minimum(x.astype(np.int32), side - 2), np.minimum(y.astype(np.int32), side - 2)
        right, up = x - column, y - row
        texels = self.maps[shape].reshape(3, -1)
        first = (faces * side + row) * side + column
        low, high = texels.take(first, axis=1), texels.take(first + side, axis=1)
        low += (texels.take(first + 1, axis=1) - low) * right
        high += (texels.take(first + side + 1, axis=1) - high) * right
        return low + (high - low) * up


def bake(shapes: Sequence[Shape]) -> LightMaps:
    """Light maps of all shapes."""
    parts = [_texels(shape) for shape in shapes]
    points, normals, albedo = (np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True))
    direct = _in_chunks(lambda at, up: _direct(shapes, at, up), points, normals)
    sent = LightMaps(shapes, direct * albedo)
    return LightMaps(shapes, direct + _in_chunks(lambda at, up: _bounced(shapes, sent, at, up), points, normals))


def _in_chunks(
    function: Callable[[np.ndarray, np.ndarray], np.ndarray], points: np.ndarray, normals: np.ndarray
) -> np.ndarray:
    """Evaluate the function in chunks of points, on all cores."""
    starts = range(CHUNK, points.shape[1], CHUNK)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return np.concatenate(
            list(pool.map(function, np.split(points, starts, axis=1), np.split(normals, starts, axis=1))), axis=1
        )


def _texels(shape: Shape) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Texel centres of all faces in the world, just off the surface; their normals and albedo; each [3, n]."""
    steps = (np.arange(shape.texels, dtype=np.float32) + 0.5) / shape.texels
    u, v = (grid.ravel() for grid in np.meshgrid(steps, steps))
    faces = [shape.wrap(face, u, v) for face in range(shape.num_faces)]
    points = np.concatenate(faces, axis=1).astype(np.float32)
    normals = shape.normals(points)
    albedo = shape.albedo(points, np.repeat(np.arange(shape.num_faces), u.size))
    return shape.world(points) + 2 * EPSILON * normals, normals, albedo


def _direct(shapes: Sequence[Shape], points: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """Direct light of the lamps."""
    light = np.zeros_like(points)
    for samples, facing, power in lamps():
        for sample in samples.T:
            toward = sample[:, None] - points
            distance = np.sqrt(dot(toward, toward))
            toward /= distance
            cosines = np.maximum(dot(toward, normals), 0) * np.maximum(-dot(toward, facing), 0)
            lit = np.flatnonzero(cosines > 0)
            clear = lit[~blocked(shapes, points.take(lit, axis=1), toward.take(lit, axis=1), distance[lit])]
            light[:, clear] += power * (cosines[clear] / (np.pi * np.maximum(distance[clear], 0.3) ** 2))
    return light


def _bounced(shapes: Sequence[Shape], sent: LightMaps, points: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """One diffuse bounce, and the constant for further ones."""
    helper = np.where(np.abs(normals[2]) < 0.9, [[0], [0], [1]], [[1], [0], [0]]).astype(np.float32)
    right = np.cross(helper, normals, axis=0)
    right /= np.sqrt(dot(right, right))
    up = np.cross(normals, right, axis=0)
    light = np.zeros_like(points)
    for k in range(BOUNCE_RAYS):  # a spiral over the hemisphere, dense where the cosine is large
        radius, angle = np.sqrt((k + 0.5) / BOUNCE_RAYS), 2.399963 * k
        x, y, z = (np.float32(a) for a in (radius * np.cos(angle), radius * np.sin(angle), np.sqrt(1 - radius**2)))
        toward = x * right + y * up + z * normals
        distance, which = nearest(shapes, points, toward)
        met = points + distance * toward
        for i, index in by_shape(which):
            light[:, index] += sent.at(i, *shapes[i].unwrap(shapes[i].local(met.take(index, axis=1))))
    return light / BOUNCE_RAYS + AMBIENT


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
