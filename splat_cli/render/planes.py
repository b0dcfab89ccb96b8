"""Planes of a scene, such as walls, floors and tables, and depths of the splats that lie on them.

Photographs of plain surfaces hardly tell how far away they are, so splats of a plain wall are scattered before and
behind it. If most surround a plane, the plane is the best guess (piecewise planar stereo: Sinha et al. 2009).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from splat_cli.device import DeviceArray
from splat_cli.gaussians.splats import MEANS, Splats
from splat_cli.render.rendered_maps import in_camera, splat_normals
from splat_cli.scene.view import View

_SAMPLES = 20_000
"""Maximum number of points in which planes are searched."""
_TRIES = 400
"""Random planes per search."""
_MIN_SHARE = 0.03
"""Minimum share of the points on a plane."""
_MAX_PLANES = 20
_NEAR = 64
"""Random points per try. The two nearest to the first point complete its plane: they are likely on its surface."""
_MIN_PEAK = 0.45
"""Minimum share of the points within a quarter of `reach` among those within `reach`; curved surfaces: at most 0.4."""
_MIN_PARALLEL = 0.8
"""Minimum cosine between the normals of a plane and of its splats, whose normals have errors of about 20 degrees."""
_MIN_SLOPE = 0.1
"""Minimum sine of the angle between a plane and a ray. A flatter ray would multiply errors of the plane."""


@dataclass(frozen=True)
class Planes:
    """K planes: points p with normals[k] @ p = offsets[k]. float64, normals [K, 3] of length 1, world units."""

    normals: np.ndarray
    offsets: np.ndarray


def find_planes(points: np.ndarray, reach: float) -> Planes:
    """Planes through points [N, 3] of surfaces, largest first (RANSAC: Fischler and Bolles 1981, one by one).

    reach: distance up to which points belong to a plane. Deterministic.
    """
    rng = np.random.default_rng(0)
    points = rng.permutation(points)[:_SAMPLES].astype(np.float64)
    found: list[tuple[np.ndarray, float]] = []
    least, left = _MIN_SHARE * len(points), points
    while len(left) > max(least, 3) and len(found) < _MAX_PLANES:
        normal, offset = _largest_plane(left, reach, rng)
        if (np.abs(left @ normal - offset) < reach / 4).sum() < least:
            break
        distances = np.abs(points @ normal - offset)
        if (distances < reach / 4).sum() >= _MIN_PEAK * (distances < reach).sum():
            found.append((normal, offset))
        left = left[np.abs(left @ normal - offset) >= reach]
    return Planes(np.array([normal for normal, _ in found]).reshape(-1, 3), np.array([offset for _, offset in found]))


def _largest_plane(points: np.ndarray, reach: float, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Normal and offset of the plane with most points within a quarter of `reach`, fitted to points around it."""
    first, others = (points[rng.integers(len(points), size=size)] for size in (_TRIES, (_TRIES, _NEAR)))
    nearest = np.argsort(np.linalg.norm(others - first[:, None], axis=2), axis=1)
    second, third = (np.take_along_axis(others, nearest[:, k, None, None], axis=1)[:, 0] for k in (0, 1))
    normals = np.cross(second - first, third - first)
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
    offsets = (normals * first).sum(axis=1)
    is_plane = np.linalg.norm(normals, axis=1) > 0.5  # three different points
    counts = (np.abs(points @ normals.T - offsets) < reach / 4).sum(axis=0) * is_plane
    best = counts.argmax()
    normal, offset = normals[best], offsets[best]
    for width in (reach / 2, reach / 2, reach / 4, reach / 4, reach / 4):
        chosen = points[np.abs(points @ normal - offset) < width]
        if len(chosen) < 3:
            break
        center = chosen.mean(axis=0)
        normal = np.linalg.svd(np.cov((chosen - center).T))[2][-1]
        offset = normal @ center
    return normal, float(offset)


class PlanarSplats:
    """Splats with the plane on which each lies, if any: the nearest within `reach` to which the splat is parallel."""

    def __init__(self, splats: Splats, planes: Planes, reach: float) -> None:
        xp, means = splats.backend.xp, splats.params[MEANS, : splats.num]
        axes = splat_normals(splats, np.eye(4))
        self.splats, self.planes = splats, planes
        self.plane_from_splat = xp.full(splats.num, -1, "int32")
        nearest = xp.full(splats.num, reach, "float32")
        for k, (normal, offset) in enumerate(zip(planes.normals, planes.offsets, strict=True)):
            vector = xp.asarray(normal, "float32")
            distances = xp.abs(vector @ means - float(offset))
            is_nearer = (distances < nearest) & (xp.abs(axes @ vector) > _MIN_PARALLEL)
            self.plane_from_splat[is_nearer] = k
            nearest = xp.where(is_nearer, distances, nearest)

    def inverse_depths(self, view: View) -> DeviceArray:
        """Inverse depths a x / z + b y / z + c at rays (x, y, z) of the camera: float32 [num, 3] of (a, b, c).

        Of the splat's plane, or constant without one.
        """
        xp, positions = self.splats.backend.xp, in_camera(self.splats, view.w2c)
        inverse = xp.zeros((self.splats.num, 3), "float32")
        inverse[:, 2] = 1 / xp.maximum(positions[:, 2], 1e-3)
        lengths = xp.linalg.norm(positions, axis=1)
        for k, (normal, offset) in enumerate(zip(self.planes.normals, self.planes.offsets, strict=True)):
            distance = offset - normal @ view.center
            vector = xp.asarray(view.w2c[:3, :3] @ normal, "float32")
            slopes = positions @ vector / lengths * float(np.sign(distance))
            is_on = (self.plane_from_splat == k) & (slopes > _MIN_SLOPE)
            inverse = xp.where(is_on[:, None], vector / float(distance or 1.0), inverse)
        return inverse
