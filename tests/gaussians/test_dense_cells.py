"""Dense regions: opaque cells of a grid."""

import numpy as np

from splat_cli.gaussians.arrays import dense_cells
from tests.gaussians.some_splats import some_splats


def splats_at(means, scale, opacity):
    splats = some_splats(len(means))
    splats.means[:] = means
    splats.log_scales[:] = np.log(scale)
    splats.logit_opacities[:] = np.log(opacity / (1 - opacity))
    return splats


def test_a_wall_is_dense_and_a_haze_is_not():
    grid = np.stack(np.meshgrid(np.arange(-1, 1, 0.1), np.arange(-1, 1, 0.1), [0.55]), axis=-1).reshape(-1, 3)
    wall = dense_cells(splats_at(grid, 0.05, 0.9), 0.1)
    assert len(wall) >= 350
    assert np.abs(wall[:, 2] - 0.55).max() < 0.15
    assert len(dense_cells(splats_at(grid, 0.05, 0.02), 0.1)) == 0


def test_a_large_splat_reaches_beyond_its_centre():
    one = splats_at(np.zeros((1, 3)), (1.0, 1.0, 0.01), 0.9)
    one.quats[:] = (1, 0, 0, 0)
    places = dense_cells(one, 0.2)
    np.testing.assert_allclose(np.abs(places).max(axis=0), [1.5, 1.5, 0.1], atol=0.11)


def test_splats_that_are_not_finite_or_far_away_are_left_out():
    splats = splats_at(np.array([[np.nan, 0, 0], [1e30, 0, 0], [0, 0, 0]]), 0.1, 0.9)
    splats.quats[2] = 0
    assert np.abs(dense_cells(splats, 0.1)).max() < 1
    assert dense_cells(splats.select(np.zeros(3, bool)), 0.1).shape == (0, 3)
