"""Random splats for tests."""

import numpy as np

from splat_cli.gaussians.arrays import SplatArrays


def some_splats(count=50, degree=3, seed=0):
    """`count` splats whose numbers are all different."""
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return rng.normal(size=shape).astype(np.float32)

    coefficients = (degree + 1) ** 2 - 1
    return SplatArrays(
        normal(count, 3),
        normal(count, 3),
        normal(count, 4),
        normal(count),
        normal(count, 3),
        normal(count, coefficients, 3),
    )
