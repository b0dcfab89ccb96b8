"""Weighted sampling of splats: frequencies follow the weights, and samples equal NumPy's to the bit."""

from types import SimpleNamespace

import numpy as np
import pytest

from splat_cli.density.ratings import WeightedSampler, sample_distinct
from splat_cli.device import launch


def _ratings(backend, weights):
    weights = np.asarray(weights, np.float32)
    totals = np.array([0, (weights > 0).sum(), weights.max().view(np.uint32)], np.uint32)
    return SimpleNamespace(
        weights=backend.upload(weights), totals=backend.upload(totals), num_candidates=int((weights > 0).sum())
    )


def _samples(backend, weights, count, seed=0):
    sampler = WeightedSampler(backend, _ratings(backend, weights))
    return backend.download(sampler.sample(count, np.random.default_rng(seed)))


def _distinct(backend, weights, count, seed=0):
    return backend.download(sample_distinct(backend, _ratings(backend, weights), count, np.random.default_rng(seed)))


@pytest.mark.parametrize("scale", [1e-6, 1, 1e6])
def test_draws_follow_their_weights(backend, scale):
    counts = np.bincount(_samples(backend, [0, scale, 3 * scale, 0], 40_000), minlength=4)
    assert counts[0] == counts[3] == 0
    assert abs(counts[2] / counts[1] - 3) < 0.15


def test_draws_equal_numpys_search(backend):
    weights = np.random.default_rng(0).random(1000).astype(np.float32) ** 8
    sums = np.cumsum((weights.astype(np.float64) / weights.max() * 2.0**36).astype(np.int64))
    at = (np.random.default_rng(4).random(5000) * sums[-1]).astype(np.int64)
    np.testing.assert_array_equal(_samples(backend, weights, 5000, seed=4), np.searchsorted(sums, at, side="right"))


def test_shares_of_many_splats_sum_to_less_than_64_bits(backend):
    """The largest share is 2^36, or less with more than 2^26 splats, of which the arrays have the first 256."""
    weights, largest = backend.xp.ones(256, "float32"), backend.upload(np.array([1], np.float32).view(np.uint32))
    shares = backend.xp.zeros(256, "int64")
    for num, expected in ((256, 2**36), (2**28, 2**34)):
        launch(backend, "density/sampling", "integer_weights", 256, weights, largest, num, shares)
        assert set(backend.download(shares).tolist()) == {expected}


def test_smallest_draw_never_selects_a_splat_of_weight_zero(backend):
    sampler = WeightedSampler(backend, _ratings(backend, [0, 0, 0, 1, 1]))
    assert backend.download(sampler.sample(3, SimpleNamespace(random=np.zeros))).tolist() == [3, 3, 3]


def test_draws_without_weights_are_valid_indices(backend):
    assert (_samples(backend, [0, 0, 0], 10) < 3).all()


def test_distinct_draws_never_repeat_and_leave_out_weight_zero(backend):
    first = []
    for seed in range(200):
        chosen = _distinct(backend, [0, 1, 1, 1, 100, 0], 3, seed)
        assert len(set(chosen.tolist())) == 3
        assert not {0, 5} & set(chosen.tolist())
        assert set(_distinct(backend, [0, 1e-20, 0, 1e-20], 2, seed)) == {1, 3}
        first.append(chosen[0] == 4)
    assert np.mean(first) > 0.9
    assert len(_distinct(backend, [0, 1, 1, 1, 100, 0], 10)) == 4


def test_distinct_draws_are_the_largest_keys_of_efraimidis_and_spirakis(backend):
    weights = np.random.default_rng(0).random(1000).astype(np.float32)
    keys = np.random.default_rng(4).random(1000) ** (1 / weights.astype(np.float64))
    np.testing.assert_array_equal(_distinct(backend, weights, 50, seed=4), np.argsort(-keys)[:50])


def test_a_splat_is_not_drawn_more_often_than_its_opacity_can_be_shared(backend):
    opacities, weights, count = np.array([0.02, 0.1, 0.5, 0.9, 0.99]), np.array([90, 4, 2, 2, 2], np.float32), 50
    sampler = WeightedSampler(backend, _ratings(backend, weights))
    logits = np.log(opacities / (1 - opacities)).astype(np.float32)
    num_copies = sampler.limit(backend.upload(logits), count, 0.05)
    shares = np.log(1 - opacities) / np.log(1 - 0.05)  # copies that reach the minimum of 0.05
    expected = np.minimum(count * weights / weights.sum(), np.maximum(shares - 1, 0))
    assert num_copies == np.ceil(expected.sum())
    draws = backend.download(sampler.sample(40_000, np.random.default_rng(0)))
    frequencies = np.bincount(draws, minlength=5) / len(draws)
    np.testing.assert_allclose(frequencies, expected / expected.sum(), atol=0.01)


def test_splats_opaque_enough_keep_their_weights(backend):
    weights = np.random.default_rng(0).random(1000).astype(np.float32)
    sampler = WeightedSampler(backend, _ratings(backend, weights))
    assert sampler.limit(backend.xp.full(1000, 10, "float32"), 300, 0.05) == 300
    draws = backend.download(sampler.sample(5000, np.random.default_rng(0)))
    np.testing.assert_array_equal(draws, _samples(backend, weights, 5000))
