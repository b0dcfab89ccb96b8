"""Size of a scene, by which learning rates and densification thresholds scale."""

from collections.abc import Sequence

import numpy as np

from splat_cli.scene.view import View, evenly_spread

REFERENCE_SIZE = 5.0
"""The size of a usual COLMAP model, for which settings are given that would depend on the world's unit."""
SIZE_RANGE = (0.25, 4.0)
"""Of a scene's size in its extents."""
SOME_VIEWS, SOME_POINTS = 30, 20_000
MAX_AWAY = 1e4
"""Extents from the origin; from about ten times as many on, pictures are visibly worse."""


def scene_extent(views: Sequence[View]) -> float:
    """1.1 times the largest distance of a camera from the cameras' mean, in world units.

    1 where all cameras stand in one place: an extent of 0 would freeze every splat.
    """
    centers = np.array([view.center for view in views]).reshape(-1, 3)
    if len(centers) == 0:
        return 1.0
    radius = float(np.linalg.norm(centers - centers.mean(axis=0), axis=1).max())
    return 1.1 * radius if radius > 0 else 1.0


def scene_size(views: Sequence[View], points: np.ndarray) -> float:
    """The geometric mean of the scene's extent and of how far its cameras look, in world units.

    Neither tells alone how far a splat may go in a step: one camera astray makes the extent large, and cameras side by
    side that look into the distance make it small. points: float32 [P, 3], which tell how far.
    """
    extent = scene_extent(views)
    low, high = SIZE_RANGE
    return extent * min(max((viewing_distance(views, points) / extent) ** 0.5, low), high)


def viewing_distance(views: Sequence[View], points: np.ndarray) -> float:
    """The median over views of the median depth of the points in their pictures; the extent where none are."""
    some = points[:: -(-len(points) // SOME_POINTS)] if len(points) else points
    depths = []
    for view in evenly_spread(views, SOME_VIEWS):
        _, depth, inside = view.project(some)
        if inside.any():
            depths.append(float(np.median(depth[inside])))
    return float(np.median(depths)) if depths else scene_extent(views)


def lost_digits(views: Sequence[View]) -> str | None:
    """A warning where the scene lies so far from the origin that float32, which splats are saved in, cannot hold it."""
    centers = np.array([view.center for view in views]).reshape(-1, 3)
    away, extent = float(np.linalg.norm(centers.mean(axis=0))), scene_extent(views)
    if away < MAX_AWAY * extent:
        return None
    return (
        f"the scene is {extent:,.4g} units large and {away:,.4g} from the origin, too far for the digits of PLY files: "
        "move the model to the origin (as colmap model_transformer does)"
    )
