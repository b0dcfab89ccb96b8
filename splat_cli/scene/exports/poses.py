"""Poses of exports: camera-to-world matrices, and scenes in geographic coordinates."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from splat_cli.scene.dataset import Frame, Unusable
from splat_cli.scene.transforms.frames import w2c_of

_MAX_AWAY = 1e3  # extents of the cameras; float32 keeps 1e-4 of the extent up to here
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


def centered(frames: Sequence[Frame]) -> tuple[list[Frame], str]:
    """The frames, and a note: of a scene in geographic coordinates, moved to where float32 holds it, by whole units."""
    centers = np.array([-frame.w2c[:3, :3].T @ frame.w2c[:3, 3] for frame in frames]).reshape(-1, 3)
    if not len(centers):
        return list(frames), ""
    middle = np.median(centers, axis=0)
    extent = np.median(np.linalg.norm(centers - middle, axis=1))
    if np.linalg.norm(middle) <= _MAX_AWAY * extent:
        return list(frames), ""
    shift = np.rint(middle)
    moved = []
    for frame in frames:
        w2c = frame.w2c.copy()
        w2c[:3, 3] += w2c[:3, :3] @ shift
        moved.append(replace(frame, w2c=w2c))
    return moved, f", moved by {', '.join(f'{-value:.0f}' for value in shift)} to the origin"
