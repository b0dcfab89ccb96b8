"""Runs on several ranks on the CPU, with enough splats for every rank."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.ranks.protocol import RANK_BLOCK
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.train.trainer import Trainer
from tests.subprocesses import descendants
from tests.training import Trained

SETTINGS = {
    "deterministic": True, "steps": 48, "batch": 4, "save_at": (), "densify_start": 7, "densify_interval": 8,
    "densify_stop": 40, "checkpoint_every": 16, "keep": 9, "noise_scale": 1000.0, "dropout": 0.1, "init": "random",
    "init_points": 3 * RANK_BLOCK + 100, "max_splats": 5 * RANK_BLOCK, "splat_budget": 0.0, "sh_degree": 1,
    "growth_rate": 0.1, "background": "random", "score_views": 5,
}  # fmt: skip


def called_once(work: Callable[[], object], step: int) -> "Callback":
    """A callback that calls `work` once, after `step` steps."""
    waiting = [work]
    return Callback(lambda trainer: trainer.step >= step and waiting and waiting.pop()())


class Callback:
    """Calls a function with the trainer after every round of steps; `trainer` belongs to the last run."""

    def __init__(self, work: Callable[[Trainer], object] = lambda trainer: None) -> None:
        self._work = work

    def begin(self, trainer: Trainer, run: RunDir) -> None:
        """See TrainingCallback.begin."""
        self.trainer = trainer

    def end(self) -> None:
        """See TrainingCallback.end."""
        del self.trainer

    def on_steps(self, trainer: Trainer, progress: object, check: Callable[[], None]) -> None:
        """See TrainingCallback.on_steps."""
        self._work(trainer)


def train(training: Trained, path: Path, gpus: int, callback: Callback | None = None, **changes: Any) -> RunDir:
    """A new run."""
    return training.new(path, callback, **{**SETTINGS, "gpus": gpus, **changes})


def before_scores(trainer: Trainer, work: Callable[[], object]) -> None:
    """Call `work` on rank 0 before each later round of view scores."""
    sums = trainer.scorer.sums

    def work_and_sum(views: np.ndarray) -> object:
        work()
        return sums(views)

    trainer.scorer.sums = work_and_sum


def bits(run: RunDir, step: int = 48) -> bytes:
    """The splats of a run."""
    return run.ply_path(step).read_bytes()


def children(parent: int | None = None) -> list[int]:
    """Running processes of ranks that a process (default: this one) has started."""
    return [child.pid for child in descendants(parent or os.getpid(), "splat_cli.run.follower")]
