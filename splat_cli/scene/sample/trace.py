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
    for i, shape in enumerate(shapes):
        index = np.flatnonzero(which == i)
        if index.size == 0:
            continue
        place = shape.local(points[:, index])
        faces, u, v = shape.unwrap(place)
        seen = shape.albedo(place, faces) * light.at(i, faces, u, v)
        if i == 0:
            seen += room_glow(place * shape.size, faces)
        if shape.mirror > 0 and bounces > 0:
            normals = shape.normals(place)
            facing = (normals * directions[:, index]).sum(axis=0)
            mirrored = directions[:, index] - 2 * facing * normals
            start = points[:, index] + 2 * EPSILON * normals
            reflected, _ = radiance(shapes, light, start, mirrored, bounces - 1)
            share = shape.mirror + (1 - shape.mirror) * 0.6 * np.clip(1 + facing, 0, 1) ** 5  # Schlick's approximation
            seen += (reflected * shape.tint - seen) * share
        colors[:, index] = seen
    return colors, points
