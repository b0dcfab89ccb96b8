"""Planes of a scene, such as walls, floors and tables, and depth maps that end at them.

Photographs hardly determine the distance of plain surfaces, so depths of a plain wall scatter, mostly behind it. If
most rays that reach a part of a plane end at it, the part is solid, and no ray passes through it (piecewise planar
stereo: Sinha et al. 2009). What stands in front of a plane stays as it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from splat_cli.device import DeviceArray, launch
from splat_cli.render.depth_fusion import DepthMaps
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
_MIN_PEAK = 0.43
"""Minimum share of the points within a quarter of `reach` among those within `reach`; spheres have 0.4, noise 0.25."""
_MIN_RAYS = 4
"""Rays that must reach a cell of a plane before it can be solid."""
_GAP = 4
"""Half the width of gaps between solid cells that are closed, cells: there, all views share an error."""
_DEEP = 12.0
"""Distance behind a plane, voxels, at which a surface is no error: it is seen through an opening."""
_MAX_CELLS = 1024
"""Maximum number of cells along a side of a plane."""


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
    """Normal and offset of the plane with the most points within a quarter of `reach`, fitted to points around it."""
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


def flattened(
    maps: DepthMaps, planes: Planes, points: np.ndarray, voxel: float, count: Callable[[int], object]
) -> DepthMaps:
    """The maps with depths at the planes, where rays reach solid parts of these.

    points: float [N, 3], of surfaces. voxel: world units. count: called with 1 after each plane.
    """
    for normal, offset in zip(planes.normals, planes.offsets, strict=True):
        near = points[np.abs(points @ normal - offset) < voxel]
        if len(near):
            maps = _flattened(maps, normal, offset, near, voxel)
        count(1)
    return maps


def _flattened(maps: DepthMaps, normal: np.ndarray, offset: float, points: np.ndarray, voxel: float) -> DepthMaps:
    """The same for one plane, with cells around points [N, 3] on it."""
    backend, xp, limits = maps.backend, maps.backend.xp, (float(voxel), _DEEP * float(voxel))
    axes = np.linalg.svd(normal[None])[2][1:]  # two directions along the plane
    low, high = (points @ axes.T).min(axis=0), (points @ axes.T).max(axis=0)
    size = max(voxel, float((high - low).max()) / _MAX_CELLS)
    shape = [int(length // size) + 1 for length in high - low]
    rows = [_in_view(view, normal, offset, axes / size, low / size) for view in maps.views]
    planes = backend.upload(np.array(rows, np.float32))
    counts, depths = xp.zeros((*shape, 3), "uint32"), maps.depths.copy()

    def over_pixels(kernel: str, values: DeviceArray, cells: DeviceArray) -> None:
        for index, view in enumerate(maps.views):
            pixels = maps.pixels(index)
            inputs = maps.cameras.array, planes, index, *limits, *shape, values[pixels], depths[pixels], cells
            launch(backend, "image/solid_plane", kernel, view.width * view.height, *inputs)

    over_pixels("count_ends", maps.weights, counts)
    over_pixels("end_rays", maps.weights, backend.upload(solid_cells(backend.download(counts))))
    return dataclasses.replace(maps, depths=depths)


def _in_view(view: View, normal: np.ndarray, offset: float, axes: np.ndarray, low: np.ndarray) -> list[float]:
    """Plane and cells in the camera's frame: `ViewPlane` in cuda_src/image/solid_plane.cu."""
    turn, center = view.w2c[:3, :3], view.center
    ends = [value for axis, start in zip(axes, low, strict=True) for value in (*turn @ axis, axis @ center - start)]
    return [*turn @ normal, offset - normal @ center, *ends]


def solid_cells(counts: np.ndarray) -> np.ndarray:
    """Which cells of a plane no ray passes through: uint8 [X, Y].

    counts: int [X, Y, 3], rays that cross the plane in a cell and end at it, behind it, and so deep behind it that the
    cell is an opening. Most rays must end at the plane; gaps between such cells are closed unless they are openings.
    """
    from scipy.ndimage import binary_closing

    total = counts.sum(axis=2)
    is_solid = (total >= _MIN_RAYS) & (2 * counts[..., 0] >= total)
    is_opening = (total > 0) & (2 * counts[..., 2] > total)
    inside = slice(_GAP, -_GAP)
    closed = binary_closing(np.pad(is_solid, _GAP), iterations=_GAP)[inside, inside]
    return (is_solid | (closed & ~is_opening)).astype(np.uint8)
