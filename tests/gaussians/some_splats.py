"""Random splats for tests."""

import numpy as np

from splat_cli.gaussians.arrays import SplatArrays


def some_splats(
    count=50, degree=3, seed=0, *, spread=1.0, log_scales=(0.0, 1.0), logit_opacities=(0.0, 1.0), color=1.0
):
    """`count` splats whose numbers are all different.

    spread, color: standard deviations of the positions (world units) and of the coefficients. log_scales,
    logit_opacities: means and standard deviations.
    """
    rng = np.random.default_rng(seed)

    def normal(*shape, mean=0.0, deviation=1.0):
        return rng.normal(mean, deviation, shape).astype(np.float32)

    coefficients = (degree + 1) ** 2 - 1
    return SplatArrays(
        means=normal(count, 3, deviation=spread),
        log_scales=normal(count, 3, mean=log_scales[0], deviation=log_scales[1]),
        quats=normal(count, 4),
        logit_opacities=normal(count, mean=logit_opacities[0], deviation=logit_opacities[1]),
        sh0=normal(count, 3, deviation=color),
        shN=normal(count, coefficients, 3, deviation=color),
    )
