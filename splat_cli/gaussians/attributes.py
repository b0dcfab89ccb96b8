"""Attributes derived from raw parameters: rotation matrices, opacities, dense cells; limit of the SH degree."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from splat_cli.device import DeviceArray
from splat_cli.gaussians.arrays import SplatArrays


def rotations(xp: Any, quats: DeviceArray) -> DeviceArray:
    """Rotation matrices [K, 3, 3] of raw quaternions [4, K] (wxyz)."""
    w, x, y, z = quats / xp.maximum(xp.linalg.norm(quats, axis=0), 1e-12)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return xp.stack([xp.stack(row, axis=-1) for row in rows], axis=-2)


def limit_sh_degree(splats: SplatArrays, degree: int) -> SplatArrays:
    """The splats with spherical harmonics of at most `degree`; higher coefficients are dropped."""
    kept = (degree + 1) ** 2 - 1
    return dataclasses.replace(splats, shN=np.ascontiguousarray(splats.shN[:, :kept]))


def opacities(splats: SplatArrays) -> np.ndarray:
    """Opacity of each splat, 0 to 1, float64 [N]."""
    return np.exp(-np.logaddexp(0.0, -splats.logit_opacities.astype(np.float64)))


_OPTICAL_DEPTH = 0.5
"""Optical depth of a dense cell: 40 % opacity."""
_SIGMAS = 1.5
_MAX_CELLS = 1 << 20  # along an axis


def dense_cells(splats: SplatArrays, cell: float) -> np.ndarray:
    """Centres [P, 3], float32, of the dense cells of a grid with spacing `cell`, world units.

    A splat is sampled at seven points: its centre, and the ends of its axes at 1.5 standard deviations. Each point gets
    a seventh of its optical depth: opacity times area, divided by the area of a cell.
    """
    finite = np.isfinite(splats.means).all(axis=1) & np.isfinite(splats.log_scales).all(axis=1)
    means, scales = splats.means[finite].astype(np.float64), np.exp(np.minimum(splats.log_scales[finite], 20.0))
    with np.errstate(over="ignore", invalid="ignore"):
        axes = np.nan_to_num(rotations(np, splats.quats[finite].T)) * (_SIGMAS * scales)[:, None]  # axes in columns
    largest = np.sort(scales, axis=1)[:, 1:].prod(axis=1)
    depth = opacities(splats)[finite] * 2 * np.pi * largest / cell**2 / 7
    points = np.concatenate([means, *(means + sign * axes[:, :, k] for k in range(3) for sign in (-1, 1))])
    near = (np.abs(points) < _MAX_CELLS / 2 * cell).all(axis=1)
    indices = np.floor(points[near] / cell).astype(np.int64) + _MAX_CELLS // 2
    keys, inverse = np.unique(indices @ [_MAX_CELLS**2, _MAX_CELLS, 1], return_inverse=True)
    dense = keys[np.bincount(inverse, np.tile(depth, 7)[near], len(keys)) >= _OPTICAL_DEPTH]
    grid = np.stack([dense // _MAX_CELLS**2, dense // _MAX_CELLS % _MAX_CELLS, dense % _MAX_CELLS], axis=1)
    return ((grid - _MAX_CELLS // 2 + 0.5) * cell).astype(np.float32)
