"""Bounds of a colour field: centre and radius of the part of the scene that is not contracted."""

from __future__ import annotations

import numpy as np

# Mirrors `struct FieldBounds` in cuda_src/field/color_field.cu.
BOUNDS_DTYPE = np.dtype([("center", np.float32, 3), ("inv_radius", np.float32)])

INSIDE = 0.8  # fraction of the points within the radius


def field_bounds(points: np.ndarray) -> np.ndarray:
    """BOUNDS_DTYPE scalar: median of points [N, 3], and the distance within which the fraction INSIDE of them lies,
    world units.
    """
    finite = points[np.isfinite(points).all(axis=1)]
    center = np.median(finite, axis=0)
    radius = float(np.quantile(np.linalg.norm(finite - center, axis=1), INSIDE))
    frame = np.zeros((), BOUNDS_DTYPE)
    frame["center"], frame["inv_radius"] = center, 1 / max(radius, 1e-6)
    return frame
