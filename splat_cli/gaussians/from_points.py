"""Initial splats, one per point, as large as the distance to its neighbours (cuda_src/knn.cu)."""

import numpy as np

from splat_cli.device import Backend, ceil_div, check_arrays
from splat_cli.errors import SceneError
from splat_cli.gaussians.arrays import SH_C0, SplatArrays
from splat_cli.gaussians.morton import curve_positions

LEAF = 16
FAN = 8
THREADS = 128


def neighbor_distances(backend: Backend, points: np.ndarray) -> np.ndarray:
    """Root mean square distance of each point to its 3 nearest others (or fewer, if there are fewer).

    points: float32 [P, 3], finite, world units. Returns float32 [P]. ShapeError for other arrays.
    """
    check_arrays("knn", points=(points, np.float32, "P 3"))
    num_points = len(points)
    if num_points == 0:
        return np.zeros(0, np.float32)
    order = np.argsort(curve_positions(points), kind="stable")
    along = points[order]
    levels = _boxes(along)
    begins = np.cumsum([0, *(len(level) for level in levels)])[:-1].astype(np.int32)
    mean_squared = backend.xp.empty(num_points, np.float32)
    backend.kernel("knn", "knn")(
        (ceil_div(num_points, THREADS),),
        (THREADS,),
        backend.upload(along),
        backend.upload(np.concatenate(levels)),
        backend.upload(begins),
        num_points,
        len(levels),
        mean_squared,
    )
    distances = np.empty(num_points, np.float32)
    distances[order] = np.sqrt(backend.download(mean_squared))
    return distances


def _boxes(points: np.ndarray) -> list[np.ndarray]:
    """Bounding boxes [B, 6] (low, high) of LEAF consecutive points, of FAN such boxes, ... up to a single one."""
    levels = [_merged(points, points, LEAF)]
    while len(levels[-1]) > 1:
        levels.append(_merged(levels[-1][:, :3], levels[-1][:, 3:], FAN))
    return levels


def _merged(low: np.ndarray, high: np.ndarray, count: int) -> np.ndarray:
    """Bounding boxes of every `count` consecutive boxes; the last box is repeated to fill its group."""
    missing = -len(low) % count
    low, high = (np.pad(corner, ((0, missing), (0, 0)), mode="edge") for corner in (low, high))
    return np.concatenate([low.reshape(-1, count, 3).min(axis=1), high.reshape(-1, count, 3).max(axis=1)], axis=1)


MIN_DISTANCE = 0.01
"""Minimum size relative to the median distance between neighbours, for coincident points."""
MAX_DISTANCE = 1e15
"""Maximum size in world units, for extreme outliers."""


def splats_from_points(
    backend: Backend,
    points: np.ndarray,
    colors: np.ndarray,
    sh_degree: int,
    opacity: float = 0.1,
    max_splats: int | None = None,
    rng: np.random.Generator | None = None,
) -> SplatArrays:
    """Isotropic splats at points float32 [P, 3] with colours uint8 [P, 3], sized by the distance to neighbours.

    The standard deviation is the root mean square distance to the 3 nearest other points. If there are more points than
    `max_splats`, a random subset is used. SceneError without points.
    """
    if max_splats is not None and len(points) > max_splats:
        rng = rng or np.random.default_rng(0)
        kept = np.sort(rng.choice(len(points), max_splats, replace=False))
        points, colors = points[kept], colors[kept]
    n = len(points)
    if n == 0:
        raise SceneError("the scene has no points to start from: leave out --init, or give it COLMAP's points3D file")
    distances = neighbor_distances(backend, np.ascontiguousarray(points)).astype(np.float64)
    apart = distances[(distances > 0) & (distances < MAX_DISTANCE)]
    least = MIN_DISTANCE * (np.median(apart) if len(apart) else 1.0)
    log_scale = np.log(np.clip(distances, least, MAX_DISTANCE)).astype(np.float32)
    return SplatArrays(
        means=np.array(points, np.float32),
        log_scales=np.repeat(log_scale[:, None], 3, axis=1),
        quats=np.tile(np.array([1, 0, 0, 0], np.float32), (n, 1)),
        logit_opacities=np.full(n, np.log(opacity / (1 - opacity)), np.float32),
        sh0=((colors.astype(np.float32) / 255 - 0.5) / SH_C0).astype(np.float32),
        shN=np.zeros((n, (sh_degree + 1) ** 2 - 1, 3), np.float32),
    )
