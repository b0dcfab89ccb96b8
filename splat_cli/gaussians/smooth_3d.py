"""Baking of the 3D smoothing filter into splats."""

import dataclasses

import numpy as np

from splat_cli.gaussians.arrays import SplatArrays

_LARGEST = 80.0  # of logits: exp does not overflow float32


def smoothed_3d(splats: SplatArrays, sigmas: np.ndarray) -> SplatArrays:
    """The splats convolved with isotropic Gaussians of standard deviations `sigmas` [N], world units; 0: unchanged.

    Mip-Splatting (Yu et al. 2024, sec. 5.1, eq. 9): variances add, and opacity falls by the square root of the ratio of
    determinants. As in cuda_src/raster/smooth_3d.cuh.
    """
    wide = splats.log_scales.astype(np.float64)
    with np.errstate(over="ignore"):  # degenerate and non-finite splats are unchanged
        log_shares = -np.log1p(sigmas.astype(np.float64)[:, None] ** 2 * np.exp(-2 * wide))  # of raw in new variance
        logits = np.clip(splats.logit_opacities.astype(np.float64), -_LARGEST, _LARGEST)
        log_fades = 0.5 * log_shares.sum(axis=1)
        logits = log_fades - np.log(np.exp(-logits) - np.expm1(log_fades))
    return dataclasses.replace(
        splats,
        log_scales=(wide - 0.5 * log_shares).astype(np.float32),
        logit_opacities=np.clip(logits, -_LARGEST, _LARGEST).astype(np.float32),
    )
