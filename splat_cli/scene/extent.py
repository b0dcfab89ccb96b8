"""Size of a scene, which scales learning rates and densification thresholds."""

from collections.abc import Sequence

import numpy as np

from splat_cli.device import ceil_div
from splat_cli.scene.view import View, evenly_spread

REFERENCE_SIZE = 5.0
"""Typical size of a COLMAP model, to which settings in world units refer."""
SIZE_RANGE = (0.25, 4.0)
"""Limits of the scene's size, relative to its extent."""
SOME_VIEWS, SOME_POINTS = 30, 20_000
MAX_AWAY = 1e4
"""Maximum distance from the origin, in extents; errors are visible from ten times as far."""
ONE_PLACE = 1e-9
"""Relative to the distance from the origin: cameras with a smaller extent are at one point, up to float64 rounding."""
MIN_SCENE = 0.01
"""Minimum scene size, world units: ten times the depth up to which the rasterizer culls splats (`projection.cuh`)."""


def scene_extent(views: Sequence[View]) -> float:
    """1.1 times the maximum distance of a camera from the mean position of all cameras, in world units.

    1 if all cameras are at one point: an extent of 0 would fix all positions.
    """
    centers = np.array([view.center for view in views]).reshape(-1, 3)
    if len(centers) == 0:
        return 1.0
    middle = centers.mean(axis=0)
    radius = float(np.linalg.norm(centers - middle, axis=1).max())
    return 1.1 * radius if radius > ONE_PLACE * float(np.linalg.norm(middle)) else 1.0


def scene_size(views: Sequence[View], points: np.ndarray) -> float:
    """Geometric mean of the scene's extent and the viewing distance, in world units.

    Either alone is unreliable as a step size: a single outlying camera enlarges the extent, and cameras close to each
    other that view distant objects reduce it. points: float32 [P, 3], for the viewing distance.
    """
    extent = scene_extent(views)
    low, high = SIZE_RANGE
    return extent * min(max((viewing_distance(views, points) / extent) ** 0.5, low), high)


def viewing_distance(views: Sequence[View], points: np.ndarray) -> float:
    """Median over views of the median depth of visible points; the extent without any."""
    some = points[:: ceil_div(len(points), SOME_POINTS)] if len(points) else points
    depths = []
    for view in evenly_spread(views, SOME_VIEWS):
        _, depth, inside = view.project(some)
        if inside.any():
            depths.append(float(np.median(depth[inside])))
    return float(np.median(depths)) if depths else scene_extent(views)


def units_warning(views: Sequence[View], points: np.ndarray) -> str | None:
    """A warning if the scene is too small to be rendered, or too far from the origin for float32 positions."""
    extent = scene_extent(views)
    size = max(extent, viewing_distance(views, points))
    if size < MIN_SCENE:
        return (
            f"the scene is {size:.2g} units large, and nothing nearer to a camera than 0.001 units is rendered: "
            "scale the model up (as colmap model_transformer does)"
        )
    centers = np.array([view.center for view in views]).reshape(-1, 3)
    away = float(np.linalg.norm(centers.mean(axis=0)))
    if away < MAX_AWAY * extent:
        return None
    return (
        f"the scene is {extent:,.4g} units large and {away:,.4g} from the origin, too far for the digits of PLY files: "
        "move the model to the origin (as colmap model_transformer does)"
    )
