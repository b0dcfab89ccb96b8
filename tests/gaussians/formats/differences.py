"""Differences between two sets of the same splats, by property."""

import numpy as np

from splat_cli.gaussians.arrays import SH_C0, opacities
from splat_cli.scene.quaternion import matrix_from_quat


def differences(a, b):
    """Property -> maximum difference: rotations in degrees, colours and opacities from 0 to 1, others as stored."""
    k = min(a.shN.shape[1], b.shN.shape[1])
    pairs = {
        "position": a.means - b.means,
        "log_scale": a.log_scales - b.log_scales,
        "rotation": angles(a.quats, b.quats),
        "opacity": opacities(a) - opacities(b),
        "color": np.clip(0.5 + SH_C0 * a.sh0, 0, 1) - np.clip(0.5 + SH_C0 * b.sh0, 0, 1),
        "sh": a.shN[:, :k] - b.shN[:, :k],
    }
    return {name: float(np.abs(difference).max(initial=0)) for name, difference in pairs.items()}


def angles(a, b):
    """Degrees between rotations wxyz [N, 4]."""
    a, b = (q.astype(np.float64) / np.linalg.norm(q.astype(np.float64), axis=1, keepdims=True) for q in (a, b))
    apart = np.minimum(np.linalg.norm(a - b, axis=1), np.linalg.norm(a + b, axis=1))
    return np.degrees(4 * np.arcsin(np.clip(apart / 2, 0, 1)))


def shapes(splats):
    """Covariance matrices [N, 3, 3] in units of the longest axis of all splats."""
    axes = np.stack([matrix_from_quat(quat) for quat in splats.quats.astype(np.float64)])
    sizes = np.exp(splats.log_scales - splats.log_scales.max())
    return axes * sizes[:, None] ** 2 @ axes.transpose(0, 2, 1)
