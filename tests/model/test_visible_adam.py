"""--visible-adam: splats that no view of a batch shows do not change; others move as with Adam on all splats."""

import itertools

import numpy as np
import pytest

from splat_cli.device import Backend, open_backend
from splat_cli.render.project import Update
from splat_cli.run.checkpoints.state import capture_state
from splat_cli.train.trainer import Trainer
from tests.model.test_adam import REFERENCE_SIZE, prepared
from tests.noise_trainer import noise_trainer

NUM = 200
HIDDEN = np.arange(NUM) % 3 == 0
PLAIN = {
    "steps": 24,
    "densify_start": 24,
    "sh_degree_interval": 4,
    "dropout": 0.0,
    "noise_scale": 1e4,
    "strategy": "mcmc",
    "relocate_unseen": False,
}


def test_visible_splats_move_as_with_adam_on_all() -> None:
    """Results are bit-identical; parameters and moments of other splats keep their bits."""
    backend = open_backend("cpu", threads=1)  # sums in a fixed order
    before, after, visible = [], [], np.empty(0)
    for dense in (True, False):
        device, moments = prepared(backend, REFERENCE_SIZE)
        planes = device.splats.params, moments
        before = [plane.copy() for plane in planes]
        device.forward()
        device.set_d_image(np.random.default_rng(1).normal(0, 1, device.image().shape))
        update = Update(moments, dense=dense)
        device.backward(update)
        after.append([plane.copy() for plane in planes])
        visible = np.pad(device.visible(), (0, device.splats.capacity - device.splats.num))
    assert 0 < visible.sum() < device.splats.num
    for old, by_all, by_visible in zip(before, *after, strict=True):
        np.testing.assert_array_equal(by_visible[:, visible], by_all[:, visible])
        np.testing.assert_array_equal(by_visible[:, ~visible], old[:, ~visible])
        assert (by_visible != old).any()


def test_noise_moves_visible_splats_only(backend: Backend) -> None:
    moved = []
    for dense in (True, False):
        updated = []
        for noise_scale in (0.0, 1e3):
            device, moments = prepared(backend, REFERENCE_SIZE)
            device.forward()
            device.set_d_image(np.zeros(device.image().shape))
            device.backward(Update(moments, dense=dense, noise_scale=noise_scale))
            updated.append(device.download(device.splats.params)[:, : device.splats.num])
        moved.append(updated[1] - updated[0])
    visible = device.visible()
    assert (moved[0][:3, ~visible] != 0).any()
    assert (moved[1][:3, visible] != 0).any()
    np.testing.assert_allclose(moved[1], np.where(visible, moved[0], 0), rtol=1e-4, atol=1e-6)


def trainer_of(threads: int = 1, **changes: object) -> Trainer:
    """Four cameras around random splats, all visible to all cameras; deterministic by default."""
    return noise_trainer(open_backend("cpu", threads=threads), NUM, **{**PLAIN, **changes})


def hide(trainer: Trainer, mask: np.ndarray) -> None:
    """Move these splats out of every view."""
    trainer.splats.params[:3, :NUM][:, mask] = 1e6


@pytest.mark.parametrize("changes", [{}, {"batch": 2}, {"local_frame_adam": False}], ids=str)
def test_no_difference_if_every_view_shows_every_splat(changes: dict[str, object]) -> None:
    planes = []
    for visible_adam in (False, True):
        trainer = trainer_of(visible_adam=visible_adam, noise_scale=0.0, **changes)
        trainer.splats.params[3:6] = np.log(0.3)  # visible everywhere
        trainer.splats.params[10] = 2.0
        trainer.run_until(24)
        planes.append(capture_state(trainer).arrays)
    assert planes[0].keys() == planes[1].keys()
    for name, array in planes[0].items():
        np.testing.assert_array_equal(planes[1][name], array, err_msg=name)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"batch": 2},
        {"pose_opt": True, "appearance": "exposure", "background": "learned"},
    ],
    ids=str,
)
def test_hidden_splats_keep_their_bits(changes: dict[str, object]) -> None:
    """This holds even with noise, regularisers and moments from earlier visible steps. Plain Adam changes them."""
    for visible_adam in (False, True):
        trainer = trainer_of(visible_adam=visible_adam, **changes)
        trainer.run_until(8)
        hide(trainer, HIDDEN)
        before = {name: plane.copy() for name, plane in trainer.model.planes().items()}
        trainer.run_until(24)
        for name in ("params", "moments"):
            plane, old = trainer.model.planes()[name], before[name]
            assert (plane[:, :NUM][:, HIDDEN] == old[:, :NUM][:, HIDDEN]).all() == visible_adam, name
            assert (plane[:, :NUM][:, ~HIDDEN] != old[:, :NUM][:, ~HIDDEN]).any(), name


def test_one_view_of_a_batch_is_enough() -> None:
    """Only one camera sees splats behind the opposite camera. They are updated in one of two batches."""
    trainer = trainer_of(batch=2, visible_adam=True, noise_scale=0.0)
    positions = np.concatenate([5.0 * trainer.cameras.current_views[k].w2c[2:3, :3].T for k in range(4)], axis=1)
    group = np.arange(NUM) % 4
    trainer.splats.params[:3, :NUM] = positions[:, group]
    planes = [trainer.splats.params.copy()]
    for step in (2, 4):
        trainer.run_until(step)
        planes.append(trainer.splats.params.copy())
    first, second = ((new != old)[:, :NUM].any(axis=0) for old, new in itertools.pairwise(planes))
    np.testing.assert_array_equal(second, ~first)
    assert [first[group == k].all() or not first[group == k].any() for k in range(4)] == [True] * 4
    assert first.sum() == NUM // 2
