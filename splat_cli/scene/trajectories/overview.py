"""Default camera for splats without cameras."""

import numpy as np

from splat_cli.scene.trajectories.look_at import look_at
from splat_cli.scene.view import MAX_NUMBER, View

UP = np.array([0.0, -1.0, 0.0])
"""Up direction of splats without cameras."""
_DIRECTION = np.array([0.0, -0.42, -0.91])


def overview(means: np.ndarray) -> View:
    """A camera above and in front of the centre of splats [N, 3], which sees most of them."""
    middle, radius = np.zeros(3), 1.0
    means = means[(np.abs(means) < MAX_NUMBER / 100).all(axis=1)]
    if len(means):
        middle = middle_of(means)
        radius = float(np.quantile(np.linalg.norm(means - middle, axis=1), 0.7)) or 1.0
    w2c = look_at(middle + 2.5 * radius * _DIRECTION, middle, UP)
    return View("overview", None, 960, 720, 720.0, 720.0, 480.0, 360.0, w2c)


def middle_of(means: np.ndarray) -> np.ndarray:
    """The median of positions [N, 3] along each axis, float64 [3]."""
    return np.median(means, axis=0).astype(np.float64)
