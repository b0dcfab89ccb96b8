"""Detection of the ground: a large, nearly level plane among points of a scene."""

import numpy as np

_TRIALS = 400
_MIN_SHARE = 0.15
"""Minimum fraction of the points on the ground."""
_THICKNESS = 0.01
"""Thickness of the plane, relative to the spread of the points."""
_MIN_COSINE = np.cos(np.radians(25))
_MAX_POINTS = 5000


def ground_normal(points: np.ndarray, up: np.ndarray) -> np.ndarray | None:
    """Unit normal of the plane with the most points, within 25 degrees of `up`; None without such a plane.

    RANSAC (Fischler and Bolles 1981), then least squares. points: [P, 3].
    """
    rng = np.random.default_rng(0)
    some = points[rng.choice(len(points), min(len(points), _MAX_POINTS), replace=False)].astype(np.float64)
    if len(some) < 30:
        return None
    low, high = np.percentile(some, (5, 95), axis=0)
    thickness = _THICKNESS * float(np.linalg.norm(high - low))
    best = np.zeros(len(some), bool)
    for a, b, c in some[rng.integers(0, len(some), (_TRIALS, 3))]:
        normal = np.cross(b - a, c - a)
        if abs(normal @ up) > _MIN_COSINE * np.linalg.norm(normal) > 0:
            near = np.abs((some - a) @ normal) < thickness * np.linalg.norm(normal)
            best = near if near.sum() > best.sum() else best
    if best.sum() < _MIN_SHARE * len(some):
        return None
    plane = some[best]
    normal = np.linalg.svd(plane - plane.mean(axis=0), full_matrices=False)[2][2]
    return normal if normal @ up > 0 else -normal
