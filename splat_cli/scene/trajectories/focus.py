"""What cameras look at together, and which way is up for them."""

from collections.abc import Sequence

import numpy as np

from splat_cli.scene.extent import scene_extent
from splat_cli.scene.view import View

_PARALLEL = 1e-6
"""Mean squared sine between axes that meet nowhere in particular: a tenth of a degree or so."""


def focus_point(views: Sequence[View]) -> np.ndarray:
    """The point, float64 [3], with the least sum of squared distances to the optical axes.

    Where the axes are parallel, or there is only one: as far ahead of the cameras as they are apart.
    """
    centers = np.array([view.center for view in views])
    forward = np.array([view.w2c[2, :3] for view in views])
    across = np.eye(3) - forward[:, :, None] * forward[:, None, :]  # what is left of a vector beside its axis
    total = across.mean(axis=0)
    if np.linalg.eigvalsh(total)[0] < _PARALLEL:
        return centers.mean(axis=0) + scene_extent(views) * _unit(forward.mean(axis=0))
    return np.linalg.solve(total, np.einsum("nij,nj->i", across, centers) / len(views))


def up_direction(views: Sequence[View]) -> np.ndarray:
    """The mean of the cameras' own up directions, float64 [3] of length 1."""
    mean = -np.mean([view.w2c[1, :3] for view in views], axis=0)
    return _unit(mean) if np.linalg.norm(mean) > 1e-3 else -views[0].w2c[1, :3]


def _unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)
