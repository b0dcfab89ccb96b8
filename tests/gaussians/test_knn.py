"""cuda_src/knn.cu against all pairs, for clouds that degenerate its tree."""

import numpy as np
import pytest

from splat_cli.errors import ShapeError
from splat_cli.gaussians.from_points import neighbor_distances
from tests.reference import knn as reference

RNG = np.random.default_rng(0)
CLOUDS = {
    "ball": RNG.normal(size=(1500, 3)),
    "plane": np.c_[RNG.random((1500, 2)), 1e-3 * RNG.normal(size=1500)],
    "line": np.c_[np.arange(700), np.zeros((700, 2))],
    "grid": np.stack(np.meshgrid(*[np.arange(11)] * 3), axis=-1).reshape(-1, 3),
    "two clusters": np.r_[RNG.normal(size=(600, 3)), 1000 + 0.01 * RNG.normal(size=(600, 3))],
    "outliers": np.r_[RNG.normal(size=(1000, 3)), 1e9 * RNG.normal(size=(8, 3))],
    "far from the origin": 1e4 + RNG.normal(size=(800, 3)),
    "pairs": np.repeat(RNG.normal(size=(400, 3)), 2, axis=0),
    "one place": np.ones((500, 3)),
}


@pytest.mark.parametrize("cloud", CLOUDS)
def test_clouds(backend, cloud):
    points = CLOUDS[cloud].astype(np.float32)
    np.testing.assert_allclose(neighbor_distances(backend, points), reference.neighbor_distances(points), rtol=1e-5)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 15, 16, 17, 127, 128, 129, 1024, 1025])
def test_counts(backend, count):
    points = np.random.default_rng(count).normal(size=(count, 3)).astype(np.float32)
    np.testing.assert_allclose(neighbor_distances(backend, points), reference.neighbor_distances(points), rtol=1e-5)


def test_no_points(backend):
    assert neighbor_distances(backend, np.zeros((0, 3), np.float32)).shape == (0,)


@pytest.mark.parametrize("points", [np.zeros((4, 3)), np.zeros((4, 2), np.float32), np.zeros((3, 4), np.float32).T])
def test_arguments(backend, points):
    with pytest.raises(ShapeError, match="knn: points"):
        neighbor_distances(backend, points)
