"""Rounds of density control with each strategy, on models of a few splats."""

import numpy as np

from splat_cli.config.presets import load_config
from splat_cli.density import make_strategy
from splat_cli.run.plan import resolve_plan
from tests.density.models import blames
from tests.views import ring_of_views

BLAMED = 7
STRATEGIES = {
    "adc": ("adc", {}),
    "mcmc": ("mcmc", {}),
    "copies": (None, {"steps": 30_000}),
    "splits": (None, {"steps": 30_000, "strategy": "splits"}),
}
ROUND, RESET = 6100, 6000  # steps of a run of 30,000; one of them also resets opacities


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
