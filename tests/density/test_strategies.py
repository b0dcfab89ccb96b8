"""Strategies: they keep to the cap, put splats where they are told to, and moments move with their splats."""

import numpy as np
import pytest

from splat_cli.density import make_strategy
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.optim.model import Model
from splat_cli.presets import load_config
from splat_cli.run.plan import resolve_plan
from tests.views import ring_of_views

PRESETS = {"adc": {}, "mcmc": {}, "default": {}, "fast": {}, "demo": {}}
NUM = 400


class _Probe:
    """Blames splat 7 for all of the error."""

    def __init__(self, model):
        self.model = model

    def scores(self, num_views):
        xp = self.model.backend.xp
        error = xp.zeros(self.model.num, "float32")
        error[7] = 50
        return xp.ones_like(error), error


def _model(backend, dead=0):
    rng = np.random.default_rng(0)
    arrays = SplatArrays(
        means=rng.normal(size=(NUM, 3)).astype(np.float32),
        log_scales=np.full((NUM, 3), -2, np.float32),
        quats=rng.normal(size=(NUM, 4)).astype(np.float32),
        logit_opacities=np.where(np.arange(NUM) < NUM - dead, 1, -9).astype(np.float32),
        sh0=np.arange(3 * NUM, dtype=np.float32).reshape(NUM, 3),
        shN=np.zeros((NUM, 0, 3), np.float32),
    )
    model = Model(backend, arrays, NUM)
    model.moments.first[...] = model.splats.params
    return model


@pytest.mark.parametrize("preset", PRESETS)
def test_never_more_than_the_cap(backend, preset):
    config = load_config(preset, {"max_splats": 450, "grad_threshold": 0.0})
    model = _model(backend, dead=20)
    strategy = make_strategy(resolve_plan(config, ring_of_views(1)).config, extent=1.0)
    step, rounds = 0, 0
    while rounds < 8:
        step += 1
        if strategy.due(step):
            strategy.refine(step, model, _Probe(model), np.random.default_rng(step))
            rounds += 1
            assert 0 < model.num <= 450


@pytest.mark.parametrize("preset", ["default", "demo", "fast"])
def test_growth_goes_where_the_error_is(backend, preset):
    model = _model(backend, dead=3 if preset == "demo" else 0)
    config = load_config(preset, {"prune_opacity": 0.005})
    parent = backend.download(model.splats.params)[:, 7].copy()
    make_strategy(resolve_plan(config, ring_of_views(1)).config, extent=1.0).refine(
        config.steps // 2, model, _Probe(model), np.random.default_rng(0)
    )
    table = model.splats.to_arrays()
    relatives = np.flatnonzero((table.sh0 == parent[11:14]).all(axis=1))
    assert len(relatives) >= 2
    others = np.flatnonzero(~np.isin(np.arange(NUM), relatives) & (np.arange(NUM) < NUM - 3))
    np.testing.assert_array_equal(table.sh0[others], np.arange(3 * NUM).reshape(NUM, 3)[others])


def test_moments_move_with_their_splats(backend):
    model = _model(backend)
    xp = backend.xp
    model.remove(xp.arange(NUM) % 3 == 0)
    model.sort_spatially()
    params, first = backend.download(model.splats.params), backend.download(model.moments.first)
    assert model.num == NUM - 134
    np.testing.assert_array_equal(params[:, : model.num], first[:, : model.num])
    assert set(params[11, : model.num]) == {3.0 * i for i in range(NUM) if i % 3}


def test_growth_keeps_what_is_there_and_clears_what_is_new(backend):
    model = _model(backend)
    before = backend.download(model.splats.params)[:, :NUM].copy()
    model.reserve(9000, limit=10_000)
    model.append(model.splats.params[:, :5].copy())
    assert model.splats.capacity >= 9000
    assert model.num == NUM + 5
    np.testing.assert_array_equal(backend.download(model.splats.params)[:, :NUM], before)
    assert not backend.download(model.moments.first)[:, NUM : NUM + 5].any()
