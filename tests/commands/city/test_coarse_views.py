"""Photographs of cells, and their training pictures."""

import numpy as np

from splat_cli.commands.city.coarse_views import (
    MIN_VIEWS,
    CoarseViews,
    covered_shares,
    picture_of_cell,
    views_of_cells,
    without_exposure,
)
from splat_cli.gaussians.splats import Splats
from tests.gaussians.some_splats import some_splats
from tests.views import render_view, ring_of_views


def test_views_that_show_a_twentieth_of_a_cell_or_the_best():
    shares = np.zeros((60, 3))
    shares[:40, 0] = 0.05
    shares[:40, 1] = 0.01 + 0.001 * np.arange(40)[::-1]
    shares[7, 2] = 0.3
    many, best, one = views_of_cells(shares)
    assert many.tolist() == list(range(40))
    assert best.tolist() == list(range(MIN_VIEWS))
    assert one.tolist() == [7]


def test_shares_of_all_cells_add_up_to_what_is_covered(backend):
    splats, view = some_splats(40, log_scales=(-1, 0.3)), ring_of_views(1)[0]
    views = CoarseViews(backend, splats, [view], (0, 0, 0))
    numbers = np.arange(40) % 4  # the last point is in no cell
    shares = covered_shares(views.weights(0), numbers, 3, view)
    coverages = [views.render(0, views.mark(numbers == number))[1] for number in range(3)]
    np.testing.assert_allclose(shares, [coverage.mean() for coverage in coverages], rtol=1e-3)
    assert 0 < shares.sum() < 1


def test_pictures_are_those_of_the_splats(backend):
    splats, view = some_splats(40), ring_of_views(3)[2]
    views = CoarseViews(backend, splats, ring_of_views(3), (1, 0, 0))
    expected = render_view(backend, Splats.from_arrays(backend, splats), view, (1, 0, 0))
    picture, _, weights = views.render(2, views.mark(np.ones(40, bool)))
    np.testing.assert_allclose(picture, expected, atol=1e-5)
    np.testing.assert_allclose(weights, views.weights(2), rtol=1e-5)  # sums of a GPU in any order


def test_a_photograph_without_its_exposure():
    rng = np.random.default_rng(0)
    picture = rng.integers(40, 200, (6, 5, 3)).astype(np.uint8)
    change = np.array([[0.2, 0.01, 0, -0.05], [0, -0.1, 0.02, 0.03], [0.05, 0, 0.1, 0]])
    exposed = picture / 255 @ (np.eye(3) + change[:, :3]).T + change[:, 3]
    found = without_exposure((255 * exposed).round().astype(np.uint8), change)
    assert np.abs(found.astype(int) - picture).max() <= 1


def test_the_photograph_is_used_where_the_cell_is():
    photograph, coarse = np.full((20, 30, 3), 200, np.uint8), np.full((20, 30, 3), 50 / 255, np.float32)
    coverage = np.zeros((20, 30), np.float32)
    coverage[:, :10] = 0.5
    coverage[:, 20] = 0.01  # covers too little
    picture = picture_of_cell(photograph, coarse, coverage)
    assert (picture[:, :13] == 200).all()
    assert (picture[:, 13:] == 50).all()
