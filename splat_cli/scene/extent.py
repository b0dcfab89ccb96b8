"""How large a scene is, as learning rates and densification thresholds take it."""

from collections.abc import Sequence

import numpy as np

from splat_cli.scene.view import View

REFERENCE_EXTENT = 5.0
"""The extent of a usual COLMAP model, for which settings are given that would depend on the world's unit."""

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
