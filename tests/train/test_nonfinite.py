"""Non-finite numbers in training are counted, removed, and do not spread."""

import json

import numpy as np
import pytest

from splat_cli.device import open_backend
from splat_cli.train.trainer import Trainer
from tests.noise_trainer import launch_anew, noise_trainer
from tests.training import SETTINGS

CALM = {"noise_scale": 0.0, "opacity_reg": 0.0, "scale_reg": 0.0, "densify_start": 50, "steps": 40}


def _trainer(num_points=100, **changes):
    """One OS thread, so that results can be compared bit by bit."""
    return noise_trainer(open_backend("cpu", threads=1), num_points, **{**SETTINGS, **CALM, **changes})


def _poison(trainer, row, value):
    """Sets one row of the last splat."""
    trainer.splats.params[row, trainer.model.num - 1] = value


def _drop_last(trainer):
    mask = np.zeros(trainer.model.num, bool)
    mask[-1] = True
    trainer.model.remove(mask)
    trainer.state.write(num_splats=trainer.model.num)


@pytest.mark.parametrize(
    ("row", "value"),
    [(row, np.nan) for row in (0, 3, 6, 10, 11)] + [(row, np.inf) for row in (0, 3, 6, 11)] + [(0, -np.inf)],
)
def test_one_bad_splat_leaves_the_others_alone(row, value):
    clean, poisoned = _trainer(), _trainer()
    _drop_last(clean)
    _poison(poisoned, row, value)
    clean.run_until(20)
    poisoned.run_until(20)
    np.testing.assert_array_equal(clean.splats.params[:, :99], poisoned.splats.params[:, :99])
    np.testing.assert_array_equal(
        clean.model.moments[:, :99].view("uint32"), poisoned.model.moments[:, :99].view("uint32")
    )


@pytest.mark.parametrize(
    "changes",
    [
        *({"strategy": strategy} for strategy in ("default", "splits", "adc", "mcmc")),
        {"noise_scale": 1000.0},
        {"smooth_3d": 1.0},
        {"pose_opt": True},
        {"appearance": "exposure"},
        {"appearance": "grid"},
        {"color": "field"},
        {"background": "learned"},
    ],
    ids=str,
)
def test_removed_bad_splat_leaves_no_trace(changes):
    settings = {"densify_start": 5, "densify_stop": 35, "max_splats": 150, **changes}
    clean, poisoned = _trainer(**settings), _trainer(**settings)
    _drop_last(clean)
    _poison(poisoned, 0, np.nan)
    clean.run_until(40)
    poisoned.run_until(40)
    assert poisoned.nonfinite_counts["removed_splats"] == 1
    assert poisoned.model.num == clean.model.num > 99
    np.testing.assert_array_equal(
        clean.splats.params[:, : clean.model.num], poisoned.splats.params[:, : clean.model.num]
    )


def test_nonfinite_update_is_skipped_and_counted():
    trainer = _trainer(scale_reg=0.01)
    _poison(trainer, 3, 80.0)  # a scale of 5e34: the splat is culled, but the gradient of its regularizer is huge
    before = trainer.splats.params[:, 99].copy()
    trainer.run_until(10)
    assert trainer.nonfinite_counts == {"skipped_updates": 10, "skipped_steps": 0, "removed_splats": 0}
    np.testing.assert_array_equal(trainer.splats.params[:, 99], before)
    assert np.isfinite(trainer.splats.params[:, :100]).all()


def test_step_with_nonfinite_loss_changes_nothing():
    trainer = _trainer()
    trainer.run_until(3)
    before, loss = trainer.splats.params.copy(), trainer.state.read()["loss"]
    trainer.loss.forward, forward = lambda state, image: state.write(loss_l1=np.nan), trainer.loss.forward
    launch_anew(trainer)
    trainer.run_until(5)
    np.testing.assert_array_equal(trainer.splats.params, before)
    assert trainer.state.read()["loss"] == loss
    trainer.loss.forward = forward
    trainer.run_until(6)
    assert trainer.nonfinite_counts["skipped_steps"] == 2
    assert (trainer.splats.params != before).any()


def test_bad_splat_is_removed_at_the_next_round():
    trainer = _trainer(densify_start=5, densify_interval=10)
    _poison(trainer, 0, np.nan)
    trainer.run_until(15)
    assert trainer.nonfinite_counts["removed_splats"] == 1
    assert np.isfinite(trainer.splats.params[:, : trainer.model.num]).all()


def test_nonfinite_counts_are_shown_once_and_logged(training, tmp_path, monkeypatch):
    monkeypatch.setattr(Trainer, "nonfinite_counts", {"skipped_updates": 7, "skipped_steps": 0})
    run = training.new(tmp_path / "run")
    warnings = [line for line in training.said if line.startswith("Warning: ")]
    assert warnings == ["Warning: non-finite numbers: 7 skipped updates; the log counts them"]
    assert json.loads(run.log.path.read_text().splitlines()[-2])["skipped_updates"] == 7
    assert run.result()["skipped_updates"] == 7


def test_run_without_finite_splats_fails(splat, scene, tmp_path):
    out = tmp_path / "run"
    result = splat("train", scene, "-o", out, "--device", "cpu", "--steps", 20, "--lr-sh0", "1e38")
    assert result.code == 1
    assert "training diverged: after step 20 no splat has finite parameters" in result.err
    assert not (out / "result.json").exists()


def test_a_run_whose_splats_are_all_pruned_names_the_option(splat, scene, tmp_path):
    density = ["--strategy", "adc", "--prune-opacity", "1", "--densify-start", "2", "--densify-interval", "5"]
    options = [*density, "--init", "points", "--steps", "20"]
    result = splat("train", scene, "-o", tmp_path / "run", "--device", "cpu", *options)
    assert result.code == 1
    assert "after step 20 no splat is left, since all were pruned: lower --prune-opacity" in result.err
