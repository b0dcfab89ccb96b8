"""Strategies: which steps end with a round, and how a round changes the splats."""

import numpy as np
import pytest

from splat_cli.config.presets import load_config
from splat_cli.density import make_strategy
from splat_cli.density.adc import DENSE_SCALE, HUGE_SCALE
from splat_cli.run.plan import resolve_plan
from tests.density.models import NUM, blames, host, some_model
from tests.reference import density as reference
from tests.views import ring_of_views

BLAMED = 7
STRATEGIES = {"adc": ("adc", {}), "mcmc": ("mcmc", {}), "copies": (None, {}), "splits": (None, {"strategy": "splits"})}
CHAINS = ["mcmc", "copies", "splits"]  # keep a number of splats, and move the dead ones
ROUND, RESET = 6100, 6000  # steps of a run of 30,000: after one of them come opacity resets as well


def config_of(name, **settings):
    """A run of 30,000 steps with one of STRATEGIES."""
    preset, changes = STRATEGIES[name]
    return resolved(preset, {"max_splats": 10_000, **changes, **settings})


def resolved(preset, settings):
    return resolve_plan(load_config(preset, settings), ring_of_views(1)).config


def refined(model, name, step=ROUND, seed=0, extent=1.0, **settings):
    """The model after one round of the strategy, in which splat BLAMED has all error and the largest gradient."""
    strategy = make_strategy(config_of(name, **settings), extent)
    assert strategy.due(step)
    if strategy.collects_stats:
        model.stats[0, BLAMED], model.stats[1, BLAMED] = 1, 4
    strategy.refine(step, model, blames(model, [BLAMED]), np.random.default_rng(seed))
    return model


def relatives(before, model):
    """Mask of splats with the colour BLAMED, which identifies them."""
    return np.flatnonzero((host(model)[11:14] == before[11:14, [BLAMED]]).all(axis=0))


@pytest.mark.parametrize("name", CHAINS)
def test_growth(backend, name):
    model = refined(some_model(backend), name)
    growth = config_of(name).growth_rate
    expected = 1 if name == "splits" else int(growth * NUM)  # there is but one splat to be split
    assert model.num - NUM == expected


@pytest.mark.parametrize("name", STRATEGIES)
def test_growth_beyond_the_room_there_was(backend, name):
    num = 4096  # all of the smallest capacity
    model = some_model(backend, num=num, capacity=num)
    model.stats[0, :100], model.stats[1, :100] = 1, 4
    before = host(model)
    config = config_of(name)
    make_strategy(config, 1.0).refine(ROUND, model, blames(model, range(100)), np.random.default_rng(0))
    after = host(model)
    assert num < model.num <= model.splats.capacity
    np.testing.assert_array_equal(after[11:, :num], before[11:])
    assert {tuple(color) for color in after[11:14, num:].T} <= {tuple(color) for color in before[11:14].T}


@pytest.mark.parametrize("name", STRATEGIES)
def test_never_more_than_the_cap(backend, name):
    model = some_model(backend, dead=20)
    for step in range(3100, 4000, 100):
        refined(model, name, step, max_splats=405, grad_threshold=0.0)
        assert 0 < model.num <= 405
    assert model.num == 405 or name in ("adc", "splits")


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_round_adds_splats_up_to_the_cap(backend, name):
    model = some_model(backend)
    model.stats[0, :NUM], model.stats[1, :NUM] = 1, 4
    model.stats[0, 100:105] = backend.xp.arange(100, 105)
    before = host(model)
    config = config_of(name, max_splats=NUM + 3)
    make_strategy(config, 1.0).refine(ROUND, model, blames(model, [5, 6, 7, 8]), np.random.default_rng(0))
    assert model.num == NUM + 3
    if name == "adc":  # where gradients are largest
        assert sorted(np.flatnonzero((host(model)[:, :NUM] != before).any(axis=0))) == [102, 103, 104]


@pytest.mark.parametrize("name", ["copies", "splits"])
def test_growth_goes_where_the_error_is(backend, name):
    model = some_model(backend)
    before = host(model)
    after = host(refined(model, name))
    family = relatives(before, model)
    assert len(family) >= 2
    assert sorted({*family, *range(NUM)}) == list(range(model.num))
    others = np.setdiff1d(np.arange(NUM), family)
    np.testing.assert_array_equal(after[:, others], before[:, others])


def test_growth_by_opacity_leaves_out_the_dead(backend):
    model = some_model(backend, dead=300)
    before = host(model)
    after = host(refined(model, "mcmc"))
    colours = {tuple(colour) for colour in before[11:14, :100].T}
    assert {tuple(colour) for colour in after[11:14].T} <= colours


@pytest.mark.parametrize("name", CHAINS)
def test_relocation(backend, name):
    """Every dead splat moves to a live one; with splits, one of them to the only splat with an error."""
    dead = 1 if name == "splits" else 9
    model = some_model(backend, dead=dead)
    before = host(model)
    after = host(refined(model, name, growth_rate=0.0))
    assert model.num == NUM
    assert (reference.sigmoid(after[10]) > 0.005).all()
    parents = [np.flatnonzero((before[11:14] == after[11:14, [k]]).all(axis=0))[0] for k in range(NUM - dead, NUM)]
    assert max(parents) < NUM - dead
    if name != "mcmc":
        assert set(parents) == {BLAMED}
    assert not host(model, "moments1")[:, [*parents, *range(NUM - dead, NUM)]].any()
    assert not host(model, "moments2")[:, [*parents, *range(NUM - dead, NUM)]].any()


@pytest.mark.parametrize("name", ["copies", "splits"])
def test_a_parent_and_its_copies_look_like_the_parent(backend, name):
    model = some_model(backend, dead=1)
    before = host(model).astype(np.float64)
    after = host(refined(model, name, growth_rate=0.0))
    if name == "copies":
        expected = [reference.relocated(before[:, [BLAMED]], np.array([2]), 0.005)] * 2
    else:
        expected = reference.halves(before[:, [BLAMED]])
    np.testing.assert_allclose(after[:, [BLAMED]], expected[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(after[:, [NUM - 1]], expected[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CHAINS)
def test_what_is_dead(backend, name):
    """Prune opacity decides."""
    model = some_model(backend)
    model.splats.params[10, 11] = float(reference.logit(0.02))
    before = host(model)
    after = host(refined(model, name, prune_opacity=0.01, growth_rate=0.0))
    np.testing.assert_array_equal(after, before)
    refined(model, name, prune_opacity=0.03, growth_rate=0.0)
    assert (host(model)[11:14, 11] != before[11:14, 11]).any()


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_round_without_splats(backend, name):
    model = some_model(backend)
    model.remove(backend.upload(np.ones(NUM, bool)))
    config = config_of(name)
    none = blames(model, [])
    make_strategy(config, 1.0).refine(RESET, model, none, np.random.default_rng(0))
    assert model.num == 0


def test_when_all_are_dead_nothing_moves(backend):
    model = some_model(backend, dead=NUM)
    before = host(model)
    np.testing.assert_array_equal(host(refined(model, "mcmc", growth_rate=0.0)), before)


def test_clone(backend):
    """A small splat under a large gradient gets a twin; its moments stay."""
    model = some_model(backend, scale=0.1 * DENSE_SCALE)
    before = host(model)
    after = host(refined(model, "adc"))
    assert model.num == NUM + 1
    np.testing.assert_array_equal(after[:, :NUM], before)
    np.testing.assert_array_equal(after[:, NUM], before[:, BLAMED])
    np.testing.assert_array_equal(host(model, "moments1")[:, BLAMED], before[:, BLAMED])
    assert not host(model, "moments1")[:, NUM].any()


def test_split(backend):
    """A large splat under a large gradient becomes two smaller ones, drawn from it."""
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
    """Each parent keeps its place; clones come first among the new splats."""
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
def test_huge_splats_are_pruned_once_opacities_were_reset(backend, step, kept):
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
    assert not host(model, "moments1")[10].any()


def test_a_reset_between_rounds_adds_nothing(backend):
    model = some_model(backend)
    assert refined(model, "adc", 6050, opacity_reset_interval=550).num == NUM
    assert reference.sigmoid(host(model)[10]).max() < 0.0101


def test_statistics_start_anew_after_a_round(backend):
    assert not host(refined(some_model(backend), "adc"), "stats").any()


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_seed_decides(backend, name):
    """Where anything is random: halves are not, and there is but one splat to be split."""
    if name == "splits":
        return

    def params(seed):
        return host(refined(some_model(backend, dead=9, scale=3 * DENSE_SCALE), name, seed=seed))

    np.testing.assert_array_equal(params(0), params(0))
    if name != "copies":  # all copies are of one splat
        assert (params(0) != params(1)).any()


@pytest.mark.parametrize("name", STRATEGIES)
def test_when_rounds_come(name):
    config = config_of(name, steps=30_000, densify_start=500, densify_stop=1000, densify_interval=50)
    strategy = make_strategy(config, 1.0)
    assert [step for step in range(1, 2000) if strategy.due(step)] == list(range(550, 1000, 50))
    assert strategy.collects_stats is (name == "adc")
    assert strategy.noise_scale == {"adc": 0, "mcmc": 500_000, "copies": 30_000, "splits": 30_000}[name]


def test_resets_come_between_rounds_too():
    config = resolved("adc", {"densify_interval": 100, "opacity_reset_interval": 250})
    strategy = make_strategy(config, 1.0)
    assert [step for step in range(900, 1300) if strategy.due(step)] == [900, 1000, 1100, 1200, 1250]


def test_short_runs_split_and_long_ones_copy():
    for steps, name in ((3000, "ErrorSplitStrategy"), (30_000, "ErrorCopyStrategy")):
        assert type(make_strategy(resolved(None, {"steps": steps}), 1.0)).__name__ == name
