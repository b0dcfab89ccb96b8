"""Splats under the 3D smoothing filter, and the gradient with respect to the raw splats.

Yu et al. 2024, "Mip-Splatting", equations 7 to 9, using determinants of the 3D covariances.
"""

from dataclasses import replace

import numpy as np

from tests.reference.inputs import Camera, Splats

Array = np.ndarray


def sigmas(means: Array, cameras: list[Camera], variance: float, near: float = 0.001, margin: float = 0.15) -> Array:
    """[N] root of the variance times the smallest pixel width at each mean, 0 if no camera sees it."""
    finest = np.full(len(means), np.inf)
    for camera in cameras:
        x, y, z = (means @ camera.w2c[:3, :3].T + camera.w2c[:3, 3]).T
        column, row = camera.fx * x / z + camera.cx, camera.fy * y / z + camera.cy
        seen = (z > near) & (abs(column / camera.width - 0.5) < 0.5 + margin)
        seen &= abs(row / camera.height - 0.5) < 0.5 + margin
        finest[seen] = np.minimum(finest, z / max(camera.fx, camera.fy))[seen]
    return np.where(np.isfinite(finest), np.sqrt(variance) * finest, 0)


def forward(splats: Splats, sigmas: Array) -> Splats:
    """Splats that look the same without the filter as `splats` with the filter."""
    variances = np.exp(2 * splats.log_scales)
    sums = variances + sigmas[:, None] ** 2
    opacities = np.sqrt(variances.prod(axis=1) / sums.prod(axis=1)) / (1 + np.exp(-splats.logit_opacities))
    return replace(splats, log_scales=np.log(sums) / 2, logit_opacities=np.log(opacities / (1 - opacities)))


def backward(splats: Splats, sigmas: Array, d_smoothed: Splats) -> Splats:
    """Gradients with respect to `splats`, from gradients with respect to `forward(splats, sigmas)`."""
    smoothed = forward(splats, sigmas)
    shares = np.exp(2 * (splats.log_scales - smoothed.log_scales))
    opacities = 1 / (1 + np.exp(-smoothed.logit_opacities))
    d_log_opacities = d_smoothed.logit_opacities / (1 - opacities)  # d logit / d log opacity = 1 / (1 - opacity)
    raw = 1 / (1 + np.exp(-splats.logit_opacities))
    return replace(
        d_smoothed,
        log_scales=shares * d_smoothed.log_scales + (1 - shares) * d_log_opacities[:, None],
        logit_opacities=d_log_opacities * (1 - raw),
    )
