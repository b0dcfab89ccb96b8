"""Ray tracing: intersections and colours."""

from collections.abc import Sequence

import numpy as np

from splat_cli.scene.sample.light import LightMaps
from splat_cli.scene.sample.nearest import nearest
from splat_cli.scene.sample.shapes import EPSILON, Shape
from splat_cli.scene.sample.surfaces import room_glow


def radiance(
    shapes: Sequence[Shape], light: LightMaps, origins: np.ndarray, directions: np.ndarray, bounces: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Linear colour [3, n] seen along rays with directions of length 1, and the points [3, n] they meet."""
    distance, which = nearest(shapes, origins, directions)
    points = origins + distance * directions
    colors = np.zeros_like(points)
    by_shape = np.argsort(which, kind="stable")
    ends = np.cumsum(np.bincount(which, minlength=len(shapes)))
    for i, (shape, index) in enumerate(zip(shapes, np.split(by_shape, ends[:-1]), strict=True)):
        if index.size == 0:
            continue
        met, arriving = points.take(index, axis=1), directions.take(index, axis=1)
        place = shape.local(met)
        faces, u, v = shape.unwrap(place)
        seen = shape.albedo(place, faces) * light.at(i, faces, u, v)
        if i == 0:
            seen += room_glow(place * shape.size, faces)
        if shape.mirror > 0 and bounces > 0:
            normals = shape.normals(place)
            facing = (normals * arriving).sum(axis=0)
            mirrored = arriving - 2 * facing * normals
            start = met + 2 * EPSILON * normals
            reflected, _ = radiance(shapes, light, start, mirrored, bounces - 1)
            share = shape.mirror + (1 - shape.mirror) * 0.6 * np.clip(1 + facing, 0, 1) ** 5  # Schlick's approximation
            seen += (reflected * shape.tint - seen) * share
        colors[:, index] = seen
    return colors, points
