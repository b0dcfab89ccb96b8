"""Splats made from points."""

import numpy as np
import pytest

from splat_cli.errors import SceneError
from splat_cli.gaussians.from_points import splats_from_points
from tests.reference import knn as reference


def cloud(count):
    rng = np.random.default_rng(2)
    return rng.normal(size=(count, 3)).astype(np.float32), rng.integers(0, 256, (count, 3), dtype=np.uint8)


def test_a_splat_a_point(backend):
    points, colors = cloud(200)
    splats = splats_from_points(backend, points, colors, sh_degree=2)
    np.testing.assert_array_equal(splats.means, points)
    distances = reference.neighbor_distances(points)
    np.testing.assert_allclose(np.exp(splats.log_scales), np.repeat(distances[:, None], 3, axis=1), rtol=1e-5)
    np.testing.assert_array_equal(splats.quats, np.tile([1, 0, 0, 0], (200, 1)))
    np.testing.assert_allclose(1 / (1 + np.exp(-splats.logit_opacities)), 0.1, rtol=1e-6)
    np.testing.assert_allclose(0.5 + 0.28209479177387814 * splats.sh0, colors / 255, atol=1e-6)
    assert splats.shN.shape == (200, 8, 3)
    assert not splats.shN.any()


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_few_points(backend, count):
    assert np.isfinite(splats_from_points(backend, *cloud(count), sh_degree=0).log_scales).all()


def test_points_in_one_place_have_a_size(backend):
    _, colors = cloud(50)
    splats = splats_from_points(backend, np.ones((50, 3), np.float32), colors, sh_degree=0)
    np.testing.assert_allclose(np.exp(splats.log_scales), 0.01, rtol=1e-5)


def test_a_point_on_another_is_small_beside_those_apart(backend):
    points, colors = cloud(50)
    points[:4] = points[4]
    scales = np.exp(splats_from_points(backend, points, colors, sh_degree=0).log_scales[:, 0])
    assert 0 < scales[:4].max() < 0.011 * np.median(scales[5:])


def test_points_absurdly_far_away_stay_finite(backend):
    points, colors = cloud(50)
    splats = splats_from_points(backend, points * np.float32(1e37), colors, sh_degree=0)
    assert np.isfinite(splats.log_scales).all()


def test_no_more_than_max_splats(backend):
    points, colors = cloud(100)
    splats = splats_from_points(backend, points, colors, 0, max_splats=30, rng=np.random.default_rng(1))
    assert len(splats) == 30
    rows = [np.flatnonzero((points == mean).all(axis=1)).item() for mean in splats.means]
    assert len(set(rows)) == 30
    np.testing.assert_allclose(0.5 + 0.28209479177387814 * splats.sh0, colors[rows] / 255, atol=1e-6)


def test_no_points(backend):
    with pytest.raises(SceneError, match="no points"):
        splats_from_points(backend, *cloud(0), sh_degree=3)
