"""Poses of exports: camera-to-world matrices."""

from collections.abc import Sequence

import numpy as np

from splat_cli.scene.dataset import Unusable
from splat_cli.scene.quaternion import world_to_camera

_FLIP_Y_AND_Z = np.diag([1.0, -1.0, -1.0, 1.0])  # OpenGL's camera looks along -z with y up
_MAX_SHEAR = 1.01
"""Maximum ratio of the scales along two axes of a pose; files round to a few digits."""


def pose_matrix(numbers: Sequence[float]) -> np.ndarray:
    """float64 [4, 4] of 12 or 16 finite numbers, row by row. Unusable otherwise."""
    values = np.array(numbers, np.float64)
    if values.size not in (12, 16) or not np.isfinite(values).all() or np.abs(values).max() > 1e100:
        raise Unusable("its pose is not a matrix of 12 or 16 finite numbers")
    if values.size == 16 and np.abs(values[12:15]).max() > 1e-6:
        raise Unusable("its pose has a last row that is not 0 0 0 1: it may be transposed")
    full = np.eye(4)
    full[:3] = values.reshape(-1, 4)[:3]
    if abs(np.linalg.det(full[:3, :3])) < 1e-12:
        raise Unusable("its pose is not an invertible matrix")
    return full


def w2c_from_opengl(c2w: np.ndarray) -> np.ndarray:
    """World to camera [4, 4] from a camera-to-world matrix [4, 4] with -z forward and y up; a scale is removed.

    Unusable if it is not finite, or mirrors or shears the picture.
    """
    if not np.isfinite(c2w).all():
        raise Unusable("its pose is not finite")
    rotation, center = c2w[:3, :3] @ _FLIP_Y_AND_Z[:3, :3], c2w[:3, 3]
    u, scales, vt = np.linalg.svd(rotation)
    if np.linalg.det(u @ vt) < 0:
        raise Unusable("its pose mirrors the picture")
    if scales[0] > _MAX_SHEAR * scales[2]:
        raise Unusable("its pose shears the picture; expected a rotation, a scale and a shift")
    return world_to_camera((u @ vt).T, center)


def w2c_from_opencv(c2w: np.ndarray) -> np.ndarray:
    """World to camera [4, 4] from a camera-to-world matrix [4, 4] with z forward and y down; as above."""
    return w2c_from_opengl(c2w @ _FLIP_Y_AND_Z)
