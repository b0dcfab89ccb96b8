"""Coarser sets of splats: one splat replaces each pair of neighbours."""

import dataclasses
from typing import Any

import numpy as np

from splat_cli.gaussians.arrays import SplatArrays, opacities, rotations
from splat_cli.gaussians.editing.edits import in_morton_order
from splat_cli.scene.quaternion import quats_from_matrices

_MAX_OPACITY = 1 - 1e-6


def halved(splats: SplatArrays) -> SplatArrays:
    """Halve the number of splats, rounded up: merge each pair of neighbours in Morton order.

    Position, covariance (within and between both) and colours are means weighted by opacity times area; the opacity
    preserves the sum of opacity times area.
    """
    splats = in_morton_order(splats)
    if len(splats) < 2:
        return splats
    last = splats.select(np.arange(len(splats) // 2 * 2, len(splats)))
    first, second = splats.select(np.arange(0, len(splats) - 1, 2)), splats.select(np.arange(1, len(splats), 2))
    covers = np.stack([_area(part.log_scales) * opacities(part) for part in (first, second)])
    shares = (covers / np.maximum(covers.sum(axis=0), 1e-30))[:, :, None]

    def mean(name: str) -> np.ndarray:
        a, b = (getattr(part, name).astype(np.float64).reshape(len(first), -1) for part in (first, second))
        return (shares[0] * a + shares[1] * b).reshape(getattr(first, name).shape)

    means, covariance = mean("means"), np.zeros((len(first), 3, 3))
    for part, share in zip((first, second), shares, strict=True):
        offset = part.means - means
        covariance += share[:, :, None] * (_covariances(part) + offset[:, :, None] * offset[:, None, :])
    variances, axes = np.linalg.eigh(covariance)
    axes[:, :, 0] *= np.linalg.det(axes)[:, None]  # a rotation, not a mirror
    log_scales = 0.5 * np.log(np.maximum(variances, 1e-30))
    opacity = np.clip(covers.sum(axis=0) / _area(log_scales), 1e-6, _MAX_OPACITY)
    arrays = {
        "means": means,
        "log_scales": log_scales,
        "quats": quats_from_matrices(axes),
        "logit_opacities": np.log(opacity / (1 - opacity)),
        "sh0": mean("sh0"),
        "shN": mean("shN"),
    }
    joined: dict[str, Any] = {
        name: np.concatenate([array.astype(np.float32), last.arrays()[name]]) for name, array in arrays.items()
    }
    return dataclasses.replace(splats, **joined)


def _area(log_scales: np.ndarray) -> np.ndarray:
    """Product of the two longer standard deviations, float64 [N], square world units."""
    area: np.ndarray = np.exp(np.sort(_finite(log_scales), axis=1)[:, 1:].sum(axis=1))
    return area


def _finite(log_scales: np.ndarray) -> np.ndarray:
    """Log scales float64, limited so that products of variances are finite."""
    return np.clip(log_scales, -80, 80).astype(np.float64)


def _covariances(splats: SplatArrays) -> np.ndarray:
    """Covariance matrices, float64 [N, 3, 3], square world units."""
    scaled = rotations(np, splats.quats.T.astype(np.float64)) * np.exp(_finite(splats.log_scales))[:, None, :]
    covariances: np.ndarray = scaled @ scaled.transpose(0, 2, 1)
    return covariances


def extents(splats: SplatArrays, deviations: float) -> tuple[np.ndarray, np.ndarray]:
    """Corners (minimum, maximum) float64 [3] of the box around `deviations` standard deviations of all splats."""
    reach = deviations * np.sqrt(np.einsum("nii->ni", _covariances(splats)))
    return (splats.means - reach).min(axis=0), (splats.means + reach).max(axis=0)
