"""Splats here and there around the origin, for tests."""

import numpy as np

from splat_cli.gaussians.arrays import SplatArrays


def scattered_splats(num, spread, log_scales, color):
    """`num` splats of degree 0. spread and color: standard deviations; log_scales: their mean and theirs."""
    rng = np.random.default_rng(0)
    return SplatArrays(
        means=rng.normal(0, spread, (num, 3)).astype(np.float32),
        log_scales=rng.normal(*log_scales, (num, 3)).astype(np.float32),
        quats=rng.normal(size=(num, 4)).astype(np.float32),
        logit_opacities=rng.normal(1, 1, num).astype(np.float32),
        sh0=rng.normal(0, color, (num, 3)).astype(np.float32),
        shN=np.zeros((num, 0, 3), np.float32),
    )
