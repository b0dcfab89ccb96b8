"""Frozen splats are rendered and never change; density control keeps their number and order."""

import numpy as np
import pytest

from splat_cli.config import TrainConfig
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.run.plan import resolve_plan
from splat_cli.run.setup.build_trainer import build_trainer
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.train.memory_recovery import keep_most_opaque
from splat_cli.train.trainer import TrainingInputs
from tests.gaussians.some_splats import some_splats
from tests.views import ring_of_views

NUM = 70  # not a multiple of a warp
DUE = {"densify_start": 1, "densify_stop": 29, "densify_interval": 5, "opacity_reset_interval": 25}
SETTINGS = {
    "splits": {"strategy": "splits"},
    "copies": {"strategy": "copies", "noise_scale": 1e5},
    "mcmc": {"strategy": "mcmc", "noise_scale": 1e5},
    "adc": {"strategy": "adc", "grad_threshold": 1e-7},
    "dropout": {"dropout": 0.4},
    "batch": {"batch": 2},
    "visible": {"visible_adam": True, "strategy": "copies", "noise_scale": 1e5},
    "coarse": {"coarse_until": 0.5},
}


def frozen_splats():
    """Splats that strategies would change: transparent, tiny, huge and opaque ones."""
    splats = some_splats(NUM, degree=2)
    splats.means *= 0.2
    splats.logit_opacities[::3] = -9
    splats.log_scales[1::3] = -20
    splats.log_scales[2::6] = 2
    return splats


def random_images(views):
    rng = np.random.default_rng(1)
    images = [rng.integers(0, 256, (view.height, view.width, 3), np.uint8) for view in views]
    return ImageSet(views, images, [None] * len(views), [])


def make_trainer(backend, frozen=None, **changes):
    views = ring_of_views(6)
    rng = np.random.default_rng(0)
    settings = {"prune_opacity": 0.05, "init_opacity": 0.06, "deterministic": True} | DUE | changes
    config = TrainConfig(steps=30, sh_degree=2, max_splats=150, splat_budget=0, **settings)
    points = rng.normal(size=(100, 3)).astype(np.float32) * 0.3, rng.integers(0, 256, (100, 3), np.uint8)
    return build_trainer(
        backend, resolve_plan(config, views), TrainingInputs(random_images(views)), points, frozen=frozen
    )


def same(found: SplatArrays, expected: SplatArrays):
    return all(found.arrays()[name].tobytes() == array.tobytes() for name, array in expected.arrays().items())


@pytest.mark.parametrize("name", SETTINGS)
def test_frozen_splats_do_not_change(backend, name):
    trainer = make_trainer(backend, frozen_splats(), **SETTINGS[name])
    before = trainer.splats.to_arrays().select(np.arange(NUM, trainer.model.num))
    trainer.run_until(30)
    trainer.model.sort_spatially()
    splats = trainer.splats.to_arrays()
    assert same(splats.select(np.arange(NUM)), frozen_splats())
    trained = splats.select(np.arange(NUM, len(splats)))
    assert 20 < len(trained) <= 150
    assert not np.isin(trained.means[:, 0], before.means[:, 0]).all()


@pytest.mark.parametrize("name", ["copies", "mcmc", "adc", "batch", "visible", "coarse"])
def test_they_have_no_moments_and_splats_train_as_without_them(backend, name):
    """Transparent frozen splats change nothing, unless random numbers depend on a splat's index."""
    hidden = some_splats(NUM, degree=2)
    hidden.logit_opacities[:] = -30
    trained, planes = [], []
    for frozen in (None, hidden):
        trainer = make_trainer(backend, frozen, **{"strategy": "copies", **SETTINGS[name], "noise_scale": 0.0})
        trainer.run_until(30)
        first = 0 if frozen is None else NUM
        trained.append(trainer.splats.to_arrays().select(np.arange(first, trainer.model.num)))
        planes.append({name: array.shape[1] for name, array in trainer.model.planes().items()})
    assert same(*trained)
    capacity = planes[1].pop("params")
    assert set(planes[1].values()) == {capacity - 64}


def test_sorting_keeps_their_order(backend):
    trainer = make_trainer(backend, frozen_splats())
    assert len(trainer.splats.to_arrays()) == NUM + 100
    trainer.model.sort_spatially()
    assert same(trainer.splats.to_arrays().select(np.arange(NUM)), frozen_splats())


def test_pruning_keeps_them(backend):
    trainer = make_trainer(backend, frozen_splats())
    keep_most_opaque(trainer.model, 40)
    assert (trainer.model.num, trainer.model.num_trained) == (NUM + 40, 40)
    assert same(trainer.splats.to_arrays().select(np.arange(NUM)), frozen_splats())


def test_frozen_splats_occlude_others(backend):
    """A shell of frozen splats hides the splats in it, so their colours do not change; dropout keeps the shell."""
    rng, views = np.random.default_rng(0), ring_of_views(4)
    shell = some_splats(500, degree=0, log_scales=(-1.2, 0.1), logit_opacities=(12, 0.1))
    shell.means /= np.linalg.norm(shell.means, axis=1, keepdims=True)
    config = TrainConfig(steps=5, sh_degree=0, dropout=0.4, densify_start=4, init_scale=0.1)
    points = 0.1 * rng.normal(size=(8, 3)).astype(np.float32), rng.integers(0, 256, (8, 3), np.uint8)

    def recolored(frozen):
        trainer = build_trainer(backend, config, TrainingInputs(random_images(views)), points, frozen=frozen)
        before = trainer.splats.to_arrays().sh0[-8:]
        trainer.run_until(5)
        return np.abs(trainer.splats.to_arrays().sh0[-8:] - before).max()

    assert recolored(None) > 0.005
    assert recolored(shell) == 0


def test_max_splats_does_not_count_them(backend):
    trainer = make_trainer(backend, frozen_splats(), strategy="copies", growth_rate=1.0, init_opacity=0.5)
    trainer.run_until(30)
    assert trainer.model.num_trained == 150
