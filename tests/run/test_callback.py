"""Training callbacks: called after every round, not counted as training time, able to pause training."""

import time

import numpy as np
import pytest

from splat_cli.gaussians.ply import read_ply
from splat_cli.terminal.interrupt import Interrupted


class Watching:
    """Records each round and calls `work`; asks to stop from step `stop` on."""

    def __init__(self, work=lambda: None, stop=None):
        self.work, self.stop = work, stop
        self.began, self.steps = [], []

    def begin(self, trainer, run):
        self.began.append((trainer.step, run.path))

    def on_steps(self, trainer, progress, check):
        assert trainer.step == progress.step
        self.steps.append(progress.step)
        self.work()
        if self.stop and progress.step >= self.stop:
            raise KeyboardInterrupt  # as `check` does


def test_callback_sees_every_round_and_changes_nothing(training, finished, tmp_path):
    watching = Watching()
    run = training.new(tmp_path / "run", watching)
    assert watching.began == [(0, tmp_path / "run")]
    assert watching.steps == sorted(watching.steps)
    assert watching.steps[-1] == 60
    seen, alone = (read_ply(run.ply_path(60)) for run in (run, finished))
    for name, array in seen.arrays().items():
        np.testing.assert_array_equal(array, getattr(alone, name))


def test_time_in_callbacks_is_not_training_time(training, tmp_path, monkeypatch):
    """Each call advances the clock by ten hours."""
    now, hours = time.perf_counter, []
    monkeypatch.setattr(time, "perf_counter", lambda: now() + 3600 * sum(hours))
    training.new(tmp_path / "run", Watching(lambda: hours.append(10)))
    assert training.result.seconds < 36000


def test_training_can_be_stopped_from_a_pause(training, tmp_path):
    with pytest.raises(Interrupted, match="Interrupted after step"):
        training.new(tmp_path / "run", Watching(stop=5))
    assert list((tmp_path / "run" / "point_cloud").iterdir())
