"""All strategies: which steps end with a round, the limit of splats, seeds."""

import dataclasses

import numpy as np
import pytest

from splat_cli.density import make_strategy
from splat_cli.density.adc import DENSE_SCALE
from tests.density.models import NUM, blames, host, some_model
from tests.density.rounds import RESET, ROUND, STRATEGIES, config_of, refined, resolved


@pytest.mark.parametrize("name", STRATEGIES)
def test_growth_beyond_the_capacity(backend, name):
    num = 4096  # fills the smallest capacity
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


@pytest.mark.parametrize(("until", "levels", "added"), [(0.3, 2, 3), (0.0, 2, 4), (0.3, 1, 4)])
@pytest.mark.parametrize("name", ["mcmc", "copies", "splits"])
def test_half_the_cap_on_photographs_of_half_the_size(backend, name, until, levels, added):
    model = some_model(backend)
    config = config_of(name, max_splats=2 * NUM + 7, growth_rate=4.5 / NUM)
    config = dataclasses.replace(config, coarse_until=until, coarse_levels=levels)
    make_strategy(config, 1.0).refine(ROUND, model, blames(model, [5, 6, 7, 8]), np.random.default_rng(0))
    assert model.num == NUM + added


@pytest.mark.parametrize("name", ["mcmc", "copies", "splits"])
def test_a_round_returns_all_changed_splats(backend, name):
    model = some_model(backend, dead=20)
    before, num = {rows: host(model, rows) for rows in model.planes()}, model.num
    scorer = blames(model, range(40))
    changed = make_strategy(config_of(name), 1.0).refine(ROUND, model, scorer, np.random.default_rng(0))
    named = np.unique(np.concatenate([backend.download(index) for index in changed]))
    expected = set(range(num, model.num))
    for rows, planes in before.items():
        expected |= set(np.flatnonzero((host(model, rows)[:, :num] != planes).any(axis=0)))
    assert expected == set(named)
    assert 20 < len(named) < num / 2


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_round_without_splats(backend, name):
    model = some_model(backend)
    model.remove(backend.upload(np.ones(NUM, bool)))
    config = config_of(name)
    none = blames(model, [])
    make_strategy(config, 1.0).refine(RESET, model, none, np.random.default_rng(0))
    assert model.num == 0


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_seed_decides(backend, name):
    """Only random strategies depend on the seed. Splitting into halves is not random if there is one splat to split."""
    if name == "splits":
        return

    def params(seed):
        return host(refined(some_model(backend, dead=9, scale=3 * DENSE_SCALE), name, seed=seed))

    np.testing.assert_array_equal(params(0), params(0))
    if name != "copies":  # all are copies of one splat
        assert (params(0) != params(1)).any()


@pytest.mark.parametrize("name", STRATEGIES)
def test_steps_with_a_round(name):
    config = config_of(name, steps=30_000, densify_start=500, densify_stop=1000, densify_interval=50)
    strategy = make_strategy(config, 1.0)
    assert [step for step in range(1, 2000) if strategy.due(step)] == list(range(550, 1000, 50))
    assert strategy.collects_stats is (name == "adc")
    assert strategy.noise_scale == {"adc": 0, "mcmc": 500_000, "copies": 30_000, "splits": 30_000}[name]


def test_short_runs_split_and_long_ones_copy():
    for steps, name in ((3000, "ErrorSplitStrategy"), (30_000, "ErrorCopyStrategy")):
        assert type(make_strategy(resolved(None, {"steps": steps}), 1.0)).__name__ == name
