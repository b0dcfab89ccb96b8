"""Selection criteria of density control against NumPy."""

import numpy as np
import pytest

from splat_cli.density.operations import HIDDEN_LOGIT
from splat_cli.density.ratings import add_scores, mean_scores, prune_mask, rate_gradients, rate_splats, split_by_size
from splat_cli.device import launch
from tests.density.models import NUM, host, index, some_model
from tests.reference.density import sigmoid


@pytest.mark.parametrize("by", ["opacity", "error"])
def test_weights_of_live_splats(backend, by):
    model = some_model(backend, dead=9)
    errors = np.random.default_rng(0).random(NUM).astype(np.float32)
    errors[:5] = 0
    ratings = rate_splats(model, 0.005, backend.upload(errors) if by == "error" else None)
    opacities = sigmoid(host(model)[10])
    expected = np.where(opacities > 0.005, errors if by == "error" else opacities, 0)
    weights = backend.download(ratings.weights)
    np.testing.assert_allclose(weights, expected, rtol=1e-6)
    assert backend.download(ratings.dead).tolist() == list(range(NUM - 9, NUM))
    assert ratings.num_candidates == (expected > 0).sum()
    assert backend.download(ratings.totals).tolist() == [9, (expected > 0).sum(), weights.max().view(np.uint32)]


def test_no_dead_splats(backend):
    assert len(rate_splats(some_model(backend), 0.005).dead) == 0


@pytest.mark.parametrize("num_frozen", [0, 70])
def test_gradients_are_means_over_the_views_that_saw_a_splat(backend, num_frozen):
    model = some_model(backend)
    model.num_frozen = num_frozen
    first = num_frozen - model.num_without_moments  # column of the first trained splat
    stats = np.tile(np.array([[1], [10]], np.float32), NUM)
    stats[0, :first] = 100
    stats[:, first : first + 6] = [[4, 1, 0.5, 3, 6, 0], [4, 2, 0, 1, 2, 0]]  # means 1, 0.5, 0.5, 3, 3, 0
    model.stats[:, :NUM] = backend.upload(stats)
    chosen, keys = map(backend.download, rate_gradients(model, 0.5))
    order = np.argsort(keys, kind="stable") - num_frozen
    assert (np.flatnonzero(chosen) - num_frozen).tolist() == [0, 1, 2, 3, 4]
    assert set(order[:2]) == {3, 4}
    assert order[2] == 0


def test_splats_are_divided_by_their_longest_axis(backend):
    model = some_model(backend)
    some = np.random.default_rng(0).permutation(NUM)[:200]
    limit = float(np.exp(np.median(host(model)[3:6].max(axis=0))))
    small, large = split_by_size(model, index(backend, some), limit)
    is_small = np.exp(host(model)[3:6, some].max(axis=0)) <= limit
    np.testing.assert_array_equal(backend.download(small), some[is_small])
    np.testing.assert_array_equal(backend.download(large), some[~is_small])
    assert [len(part) for part in split_by_size(model, index(backend, []), limit)] == [0, 0]


def test_transparent_and_huge_splats_are_pruned(backend):
    model = some_model(backend)
    model.splats.params[10, 0], model.splats.params[4, 5], model.splats.params[10, 7] = -6, 1.5, -5
    assert np.flatnonzero(backend.download(prune_mask(model, 0.005, np.inf))).tolist() == [0]
    assert np.flatnonzero(backend.download(prune_mask(model, 0.005, 2.0))).tolist() == [0, 5]
    assert np.flatnonzero(backend.download(prune_mask(model, 0.01, 2.0))).tolist() == [0, 5, 7]


def test_limits_of_zero_and_infinity(backend):
    """A hidden splat is dead for any limit of opacity; no splat is less opaque than 0 or larger than infinity."""
    model = some_model(backend)
    model.splats.params[10, 3], model.splats.params[3, 5] = HIDDEN_LOGIT, 100  # opacity 0, infinite size
    assert backend.download(rate_splats(model, 0.0).dead).tolist() == [3]
    assert not backend.download(prune_mask(model, 0.0, np.inf)).any()
    assert [len(part) for part in split_by_size(model, index(backend, [5]), np.inf)] == [1, 0]


def test_scores_are_means_over_views(backend):
    sums = np.random.default_rng(0).random((50, 2)).astype(np.float32)
    means = backend.download(mean_scores(backend, backend.upload(sums), 40, 3))
    np.testing.assert_array_equal(means, sums[:40].T / np.float32(3))
    fixed = (sums.astype(np.float64) * 2**24).astype(np.int64)
    means = backend.download(mean_scores(backend, backend.upload(fixed.view(np.float32)), 40, 3))
    np.testing.assert_array_equal(means, (fixed[:40] / 2.0**24).astype(np.float32).T / np.float32(3))


@pytest.mark.parametrize("dtype", [np.float32, np.int64], ids=["float", "fixed"])
def test_scores_of_other_views_are_added(backend, dtype):
    part, sums = (np.random.default_rng(seed).random((40, 2)) * 2**24 for seed in (0, 1))
    part, sums = part.astype(dtype), np.concatenate([sums, sums[:9]]).astype(dtype)
    added = backend.upload(sums.view(np.float32))
    add_scores(backend, backend.upload(part.view(np.float32)), added)
    expected = sums.copy()
    expected[:40] += part
    np.testing.assert_array_equal(backend.download(added).view(dtype), expected)


def test_ratings_end_with_the_splats(backend):
    """The arrays have another element here, which stays."""
    model, num, file = some_model(backend), 40, "density/ratings"
    marks, values = np.ones(num + 1, bool), np.full(num + 1, 7, np.float32)
    chosen, keys, dead, weights, mask = map(backend.upload, (marks, values, marks, values, marks))
    totals, params = backend.upload(np.zeros(3, np.uint32)), model.splats.params
    launch(backend, file, "rate_gradients", num, params, NUM, 0, 0, num, 1e9, chosen, keys)
    launch(backend, file, "rate_splats", num, params[10], None, 0, num, 0.0, weights, dead, totals)
    launch(backend, file, "mark_prunable", num, params, NUM, 0, num, 0.0, 1e9, mask)
    for array in (chosen, dead, mask):
        assert np.flatnonzero(backend.download(array)).tolist() == [num]
    assert backend.download(keys)[num] == backend.download(weights)[num] == 7
