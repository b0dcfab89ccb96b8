"""How large a scene is, as learning rates and densification thresholds take it."""

from collections.abc import Sequence

import numpy as np

from splat_cli.scene.view import View


def scene_extent(views: Sequence[View]) -> float:
    """1.1 times the largest distance of a camera from the cameras' mean, in world units.

    1 where all cameras stand in one place: an extent of 0 would freeze every splat.
    """
    centers = np.array([view.center for view in views]).reshape(-1, 3)
    if len(centers) == 0:
        return 1.0
    radius = float(np.linalg.norm(centers - centers.mean(axis=0), axis=1).max())
    return 1.1 * radius if radius > 0 else 1.0
