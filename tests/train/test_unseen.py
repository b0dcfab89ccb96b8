"""Splats that no training view shows are relocated, and are not in the result."""

import numpy as np
import pytest

from splat_cli.density.operations import mark_unseen, max_unseen_steps, set_last_seen
from splat_cli.device.cpu import CpuBackend
from splat_cli.gaussians.splats import MEANS, OPACITY
from splat_cli.model.model import Model
from splat_cli.run.checkpoints.state import capture_state, restore_state
from tests.gaussians.some_splats import some_splats
from tests.noise_trainer import noise_trainer

FAR = 100.0  # positions of the ring's photographs are a few units from the origin
STEPS = 40
SETTINGS = {
    "steps": STEPS,
    "densify_start": 1,
    "densify_stop": 39,
    "densify_interval": 3,
    "max_splats": 60,
    "splat_budget": 0.0,
    "dropout": 0.0,
    "noise_scale": 0.0,
    "score_views": 2,
    "deterministic": True,
}


def trainer_with_hidden(backend, num_hidden=5, **changes):
    """60 splats; the first one is far above all cameras."""
    trainer = noise_trainer(backend, 60, **SETTINGS | changes)
    trainer.splats.params[MEANS, :num_hidden] += FAR
    return trainer


def num_far(trainer):
    return int((trainer.backend.download(trainer.splats.params[MEANS])[0, : trainer.model.num] > FAR / 2).sum())


@pytest.mark.parametrize("strategy", ["mcmc", "copies", "splits"])
@pytest.mark.parametrize("settings", [{}, {"visible_adam": True}, {"batch": 2}, {"dropout": 0.01}], ids=str)
def test_unseen_splats_are_relocated_within_two_passes(backend, strategy, settings):
    trainer = trainer_with_hidden(backend, strategy=strategy, **settings)
    limit = max_unseen_steps(trainer.config, 4)
    trainer.run_until(limit)
    assert num_far(trainer) == 5
    trainer.run_until(limit + 6)
    assert num_far(trainer) == 0
    assert trainer.model.num == 60


def test_unseen_splats_stay_without_relocation(backend):
    trainer = trainer_with_hidden(backend, strategy="copies", relocate_unseen=False)
    trainer.run_until(STEPS)
    assert num_far(trainer) == 5


def test_the_result_has_no_unseen_splats(backend):
    trainer = trainer_with_hidden(backend, strategy="copies", densify_stop=2)
    trainer.run_until(STEPS - 1)
    assert num_far(trainer) == 5
    trainer.run_until(STEPS)
    assert (num_far(trainer), trainer.model.num) == (0, 55)


def test_all_views_are_shown_within_the_limit(backend):
    config = noise_trainer(backend, 10, **SETTINGS).config
    assert max_unseen_steps(config, 24) == 48


def test_splats_of_a_single_view_stay(backend):
    """Splats in front of the first camera, and behind or outside the view of all others."""
    trainer = trainer_with_hidden(backend, num_hidden=0, strategy="copies")
    trainer.splats.params[MEANS, :5] = backend.upload(np.array([[-2.5], [1.5], [0.0]], np.float32))
    trainer.splats.params[OPACITY, :5] = 2.0
    limit, seen_steps = max_unseen_steps(trainer.config, 4), set()
    for step in range(limit, STEPS, 3):
        trainer.run_until(step)
        near = trainer.backend.download(trainer.splats.params[MEANS])[0, : trainer.model.num] < -2
        seen_steps |= set(trainer.backend.download(trainer.model.last_seen)[: trainer.model.num][near].tolist())
        assert not trainer.backend.download(mark_unseen(trainer.model, step - limit))[near].any()
        assert near.sum() >= 5
    assert len(seen_steps) > 2


@pytest.mark.parametrize("num_frozen", [0, 70])
def test_splats_of_the_step_itself_are_seen(backend, num_frozen):
    """With more splats than a block has threads; the clock of an index that is given twice restarts once."""
    model = Model(backend, some_splats(700), 700, num_frozen=num_frozen)  # without clocks of the first 64 of 70
    model.last_seen[:] = 5
    set_last_seen(model, backend.upload(np.array([*range(300, 700), 699])), 9)
    first = model.num_without_moments
    assert backend.download(model.last_seen)[: 701 - first].tolist() == [5] * (300 - first) + [9] * 400 + [5]
    expected = [False] * num_frozen + [True] * (300 - num_frozen) + [False] * 400
    assert backend.download(mark_unseen(model, 6)).tolist() == expected
    assert not backend.download(mark_unseen(model, 5)).any()


def test_frozen_splats_stay(backend):
    trainer = trainer_with_hidden(backend, strategy="copies")
    trainer.model.num_frozen = 5
    trainer.state.write(num_frozen=5)
    trainer.run_until(STEPS)
    assert num_far(trainer) == 5


def test_clocks_restart_after_a_change_of_strategy(backend):
    other = trainer_with_hidden(backend, strategy="adc")
    other.run_until(9)
    trainer = trainer_with_hidden(backend, strategy="copies")
    restore_state(trainer, capture_state(other))
    assert set(backend.download(trainer.model.last_seen)[: trainer.model.num]) == {9}


def test_resumed_runs_relocate_alike(backend):
    if backend.name == "cpu":
        backend = CpuBackend(threads=1)  # as with --deterministic
    whole = trainer_with_hidden(backend, strategy="copies")
    whole.run_until(7)
    checkpoint = capture_state(whole)
    checkpoint.arrays = {name: backend.download(array).copy() for name, array in checkpoint.arrays.items()}
    whole.run_until(STEPS)
    resumed = trainer_with_hidden(backend, strategy="copies")
    restore_state(resumed, checkpoint)
    resumed.run_until(STEPS)
    for name, plane in whole.model.planes().items():
        expected, found = backend.download(plane), backend.download(resumed.model.planes()[name])
        np.testing.assert_array_equal(found[:, : resumed.model.num], expected[:, : whole.model.num], err_msg=name)


def test_an_interval_longer_than_the_run_takes_no_time(backend):
    """The next round was searched for step by step, up to this number."""
    trainer = noise_trainer(backend, 60, **SETTINGS | {"densify_interval": 2**31 - 1, "steps": 4})
    trainer.run_until(4)
    assert (trainer.step, trainer.density.next_pause(1, 4), trainer.density.next_pause(3, 9)) == (4, 4, 9)
