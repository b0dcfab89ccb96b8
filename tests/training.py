"""Training runs inside the test's process."""

import io
import shutil
from contextlib import contextmanager

import pytest

from splat_cli.config.presets import load_config
from splat_cli.run.checkpoints.checkpointer import Checkpointer, checkpoint_paths
from splat_cli.run.device import open_device
from splat_cli.run.resume import plan_resumption
from splat_cli.run.storage.find_run import locked_run, new_locked_run
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.run.train_scene import train_scene
from splat_cli.terminal.console import Display

SETTINGS = {
    "deterministic": True, "steps": 60, "save_at": (), "densify_start": 5, "densify_stop": 50, "densify_interval": 10,
    "checkpoint_every": 15, "keep": 3, "noise_scale": 1000.0, "background": "random",
    "init": "points",  # a plane sweep takes several times as long as these steps
}  # fmt: skip


@contextmanager
def _every_checkpoint():
    """Training waits for checkpoints; otherwise, it skips checkpoints that are due while one is being written."""
    save = Checkpointer.save

    def save_and_wait(self, *arguments):
        save(self, *arguments)
        if self._thread:
            self._thread.join()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpointer, "save", save_and_wait)
        yield


class Trained:
    """Trains, and keeps the messages and the result."""

    def __init__(self, scene):
        self.scene = scene
        self._stream = io.StringIO()
        self.display = Display(self._stream)

    @property
    def said(self):
        return self._stream.getvalue().splitlines()

    def new(self, path, callback=None, timer=None, **changes):
        config = load_config(None, {**SETTINGS, **changes})
        with new_locked_run(path) as run:
            backend = open_device("cpu", config, self.display)
            with _every_checkpoint():
                self.result = train_scene(
                    self.scene, run, config, backend, self.display, callback=callback, timer=timer
                )
        return run

    def resume(self, path, **changes):
        with locked_run(path) as run:
            plan = plan_resumption(run, None, changes, self.display)
            backend = open_device("cpu", plan.config, self.display)
            with _every_checkpoint():
                self.result = train_scene(plan.scene, run, plan.config, backend, self.display, plan.checkpoint)
        return run

    def resume_before_end(self, finished, path, **changes):
        """Resumes a copy of a finished run as if it had been killed before its last checkpoint."""
        run = RunDir(shutil.copytree(finished.path, path))
        run.result_path.unlink()
        checkpoint_paths(run.checkpoints_path)[0].unlink()
        return self.resume(run.path, **changes)
