"""Adaptive density control of 3DGS: clone, split, prune, opacity reset."""

import numpy as np
import pytest

from splat_cli.density import make_strategy
from splat_cli.density.adc import DENSE_SCALE, HUGE_SCALE
from tests.density.models import NUM, host, some_model
from tests.density.rounds import BLAMED, RESET, ROUND, refined, resolved
from tests.reference import density as reference


def test_clone(backend):
    """A small splat with a large gradient is cloned; its moments stay."""
    model = some_model(backend, scale=0.1 * DENSE_SCALE)
    before = host(model)
    after = host(refined(model, "adc"))
    assert model.num == NUM + 1
    np.testing.assert_array_equal(after[:, :NUM], before)
    np.testing.assert_array_equal(after[:, NUM], before[:, BLAMED])
    np.testing.assert_array_equal(host(model, "moments")[:, BLAMED], before[:14, BLAMED])
    assert not host(model, "moments")[:, NUM].any()


def test_split(backend):
    """A large splat with a large gradient is replaced by two smaller ones, sampled from it."""
    model = some_model(backend, scale=3 * DENSE_SCALE)
    before = host(model)
    after = host(refined(model, "adc", seed=3))
    normals = np.random.default_rng(3).standard_normal((3, 2), np.float32).astype(np.float64)
    parent, both = np.repeat(before[:, [BLAMED]], 2, axis=1), [BLAMED, NUM]
    assert model.num == NUM + 1
    np.testing.assert_allclose(after[:, both], reference.children(parent, normals), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(np.delete(after, both, axis=1), np.delete(before, BLAMED, axis=1))


def test_size_is_judged_by_the_extent_of_the_scene(backend):
    cloned = refined(some_model(backend, scale=3 * DENSE_SCALE), "adc", extent=30.0)
    assert len(np.unique(host(cloned)[:, [BLAMED, NUM]], axis=1).T) == 1


def test_clones_and_splits_of_one_round(backend):
    """Parents keep their places; clones come first among the new splats."""
    model = some_model(backend, scale=0.1 * DENSE_SCALE)
    model.splats.params[3:6, 5] = float(np.log(5 * DENSE_SCALE))
    model.stats[0, 5], model.stats[1, 5] = 1, 4
    before = host(model)
    after = host(refined(model, "adc"))
    assert model.num == NUM + 2
    np.testing.assert_array_equal(after[:, NUM], before[:, BLAMED])
    np.testing.assert_array_equal(after[11:, NUM + 1], before[11:, 5])
    np.testing.assert_allclose(after[3:6, [5, NUM + 1]], np.log(5 * DENSE_SCALE / 1.6), rtol=1e-5)


def test_the_gradient_threshold_decides(backend):
    for threshold, grown in ((0.25, 1), (0.26, 0)):
        assert refined(some_model(backend), "adc", grad_threshold=threshold).num == NUM + grown


def test_prune(backend):
    model = some_model(backend, dead=9)
    before = host(model)
    after = host(refined(model, "adc", grad_threshold=1.0))
    np.testing.assert_array_equal(after, before[:, : NUM - 9])


@pytest.mark.parametrize(("step", "kept"), [(2900, NUM), (3100, NUM - 1)])
def test_huge_splats_are_pruned_after_the_first_reset(backend, step, kept):
    model = some_model(backend, scale=DENSE_SCALE)
    model.splats.params[3, 11] = float(np.log(2 * HUGE_SCALE))
    assert refined(model, "adc", step, grad_threshold=1.0).num == kept


def test_opacity_reset(backend):
    model = some_model(backend)
    before = reference.sigmoid(host(model)[10])
    refined(model, "adc", ROUND, grad_threshold=1.0)
    np.testing.assert_array_equal(reference.sigmoid(host(model)[10]), before)
    refined(model, "adc", RESET, grad_threshold=1.0)
    np.testing.assert_allclose(reference.sigmoid(host(model)[10]), np.minimum(before, 0.01), rtol=1e-5)
    assert not host(model, "moments")[10].any()


def test_a_reset_between_rounds_adds_nothing(backend):
    model = some_model(backend)
    assert refined(model, "adc", 6050, opacity_reset_interval=550).num == NUM
    assert reference.sigmoid(host(model)[10]).max() < 0.0101


def test_statistics_are_cleared_after_a_round(backend):
    assert not host(refined(some_model(backend), "adc"), "stats").any()


def test_resets_also_come_between_rounds():
    config = resolved("adc", {"densify_interval": 100, "opacity_reset_interval": 250})
    strategy = make_strategy(config, 1.0)
    assert [step for step in range(900, 1300) if strategy.due(step)] == [900, 1000, 1100, 1200, 1250]
