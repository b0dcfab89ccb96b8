"""Camera centre of a pose: a module of its own, since views and frames of datasets both import it."""

import numpy as np


def camera_center(w2c: np.ndarray) -> np.ndarray:
    """Position in world coordinates, float64 [3], of a camera with the pose w2c float64 [4, 4]."""
    return -w2c[:3, :3].T @ w2c[:3, 3]
