"""Initial splats, one per point."""

import numpy as np

from splat_cli.device import Backend
from splat_cli.errors import SceneError
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.knn import neighbor_distances

SH_C0 = 0.28209479177387814
"""The constant spherical harmonic: colour = 0.5 + SH_C0 * sh0."""
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
