"""Attributes derived from raw parameters: rotation matrices, opacities; limit of the SH degree."""

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
