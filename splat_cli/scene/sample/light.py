"""Diffuse light, baked into a light map per face.

Direct light with soft shadows from the lamps, one diffuse bounce, and a constant for the bounces after it.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from splat_cli.scene.sample.nearest import blocked, nearest
from splat_cli.scene.sample.room import lamps
from splat_cli.scene.sample.shapes import EPSILON, Shape

AMBIENT = np.array([[0.12], [0.1], [0.08]], np.float32)
BOUNCE_RAYS = 24
CHUNK = 8192


class LightMaps:
    """Irradiance / pi of every face; times albedo it is the outgoing radiance."""

    def __init__(self, shapes: Sequence[Shape], light: np.ndarray) -> None:
        """`light` [3, n] at the texels of all shapes, in the order of `_texels`."""
        ends = np.cumsum([shape.num_faces * shape.texels**2 for shape in shapes])
        self.maps = []
        for shape, values in zip(shapes, np.split(light.T, ends[:-1]), strict=True):
            faces = values.reshape(shape.num_faces, shape.texels, shape.texels, 3)
            self.maps.append(np.pad(faces, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge"))

    def at(self, shape: int, faces: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Bilinear interpolation, [3, n]."""
        side = self.maps[shape].shape[1]
        x, y = u * (side - 2) + np.float32(0.5), v * (side - 2) + np.float32(0.5)
        column, row = np.minimum(x.astype(np.int32), side - 2), np.minimum(y.astype(np.int32), side - 2)
        right, up = (x - column)[:, None], (y - row)[:, None]
        texels = self.maps[shape].reshape(-1, 3)
        first = (faces * side + row) * side + column
        low, high = texels.take(first, axis=0), texels.take(first + side, axis=0)
        low += (texels.take(first + 1, axis=0) - low) * right
        high += (texels.take(first + side + 1, axis=0) - high) * right
        return (low + (high - low) * up).T


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
            distance = np.sqrt((toward * toward).sum(axis=0))
            toward /= distance
            share = np.maximum((toward * normals).sum(axis=0), 0) * np.maximum(-(toward * facing).sum(axis=0), 0)
            lit = np.flatnonzero(share > 0)
            clear = lit[~blocked(shapes, points[:, lit], toward[:, lit], distance[lit])]
            light[:, clear] += power * (share[clear] / (np.pi * np.maximum(distance[clear], 0.3) ** 2))
    return light


def _bounced(shapes: Sequence[Shape], sent: LightMaps, points: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """One diffuse bounce, and the constant for further ones."""
    helper = np.where(np.abs(normals[2]) < 0.9, [[0], [0], [1]], [[1], [0], [0]]).astype(np.float32)
    right = np.cross(helper, normals, axis=0)
    right /= np.sqrt((right * right).sum(axis=0))
    up = np.cross(normals, right, axis=0)
    light = np.zeros_like(points)
    for k in range(BOUNCE_RAYS):  # a spiral over the hemisphere, dense where the cosine is large
        radius, angle = np.sqrt((k + 0.5) / BOUNCE_RAYS), 2.399963 * k
        x, y, z = (np.float32(a) for a in (radius * np.cos(angle), radius * np.sin(angle), np.sqrt(1 - radius**2)))
        toward = x * right + y * up + z * normals
        distance, which = nearest(shapes, points, toward)
        met = points + distance * toward
        for i, other in enumerate(shapes):
            index = np.flatnonzero(which == i)
            if index.size:
                light[:, index] += sent.at(i, *other.unwrap(other.local(met[:, index])))
    return light / BOUNCE_RAYS + AMBIENT
