"""Poses of exports: camera-to-world matrices."""

from collections.abc import Sequence

import numpy as np

from splat_cli.scene.dataset import Unusable
from splat_cli.scene.transforms.frames import w2c_of

_FLIP_Y_AND_Z = np.diag([1.0, -1.0, -1.0, 1.0])


def pose_matrix(numbers: Sequence[float]) -> np.ndarray:
    """float64 [4, 4] of 12 or 16 finite numbers, row by row. Unusable otherwise."""
    values = np.array(numbers, np.float64)
    if values.size not in (12, 16) or not np.isfinite(values).all() or np.abs(values).max() > 1e100:
        raise Unusable("its pose is not a matrix of 12 or 16 finite numbers")
    full = np.eye(4)
    full[:3] = values.reshape(-1, 4)[:3]
    if abs(np.linalg.det(full[:3, :3])) < 1e-12:
        raise Unusable("its pose is not an invertible matrix")
    return full


def w2c_from_opengl(c2w: np.ndarray) -> np.ndarray:
    """World to camera of a camera to world [4, 4] whose camera looks along -z with y up, as in ARKit."""
    return w2c_of(c2w)


def w2c_from_opencv(c2w: np.ndarray) -> np.ndarray:
    """World to camera of a camera to world [4, 4] whose camera looks along z with y down; a scale is taken out."""
    return w2c_of(c2w @ _FLIP_Y_AND_Z)
