"""Limits of SH degree and opacity."""

import numpy as np
import pytest

from splat_cli.gaussians.arrays import SplatArrays, limit_sh_degree, opacities


def _splats(num, coefficients=15):
    rng = np.random.default_rng(num)
    shapes = {"means": (3,), "log_scales": (3,), "quats": (4,), "logit_opacities": (), "sh0": (3,)}
    arrays = {name: rng.normal(size=(num, *shape)).astype(np.float32) for name, shape in shapes.items()}
    return SplatArrays(**arrays, shN=rng.normal(size=(num, coefficients, 3)).astype(np.float32))


@pytest.mark.parametrize(("degree", "coefficients"), [(0, 0), (1, 3), (2, 8), (3, 15)])
def test_degree_is_limited_and_never_raised(degree, coefficients):
    splats = _splats(20)
    limited = limit_sh_degree(splats, degree)
    assert limited.sh_degree == degree
    np.testing.assert_array_equal(limited.shN, splats.shN[:, :coefficients])
    assert limit_sh_degree(_splats(20, 3), 3).sh_degree == 1


def test_extreme_opacities_are_finite():
    splats = _splats(2)
    splats.logit_opacities[:] = [-1e30, 1e30]
    assert opacities(splats).tolist() == [0, 1]
