"""SplatArrays: SH degree, inconsistent shapes, selection."""

import dataclasses

import numpy as np
import pytest

from splat_cli.errors import ShapeError
from tests.gaussians.some_splats import some_splats


@pytest.mark.parametrize("degree", range(4))
def test_degree(degree):
    splats = some_splats(7, degree)
    assert len(splats) == 7
    assert splats.sh_degree == degree


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("quats", np.zeros((7, 3), np.float32)),
        ("log_scales", np.zeros((6, 3), np.float32)),
        ("logit_opacities", np.zeros((7, 1), np.float32)),
        ("sh0", np.zeros((7, 3))),
        ("shN", np.zeros((7, 4, 3), np.float32)),
        ("shN", np.zeros((7, 9), np.float32)),
    ],
)
def test_arrays_that_disagree(name, value):
    with pytest.raises(ShapeError, match=name):
        dataclasses.replace(some_splats(7, 1), **{name: value})


def test_select():
    splats = some_splats(7, 2)
    mask = np.arange(7) % 2 == 0
    for name, array in splats.select(mask).arrays().items():
        np.testing.assert_array_equal(array, getattr(splats, name)[mask])
