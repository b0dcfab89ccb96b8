"""Callbacks of training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from splat_cli.run.storage.run_dir import RunDir
from splat_cli.terminal.console import Progress
from splat_cli.train.trainer import Trainer

OnProgress = Callable[[Progress], bool | None]
"""User function called with the progress; training ends early if it returns False."""


class TrainingCallback(Protocol):
    """Called a few times a second between two steps, in the training thread.

    The device is idle during a call and may be used; the trainer must not be changed. The time does not count as
    training. A callback that pauses training calls `check` regularly, which raises KeyboardInterrupt after Ctrl-C.
    """

    def begin(self, trainer: Trainer, run: RunDir) -> None:
        """Called before the first step; called again, with a new trainer, after the loss of a rank."""

    def on_steps(self, trainer: Trainer, progress: Progress, check: Callable[[], None]) -> None:
        """Called after every round of steps."""

    def end(self) -> None:
        """Called after the loss of a rank, before a new trainer is built: drop all references to the old one."""


class StoppedByCallback(KeyboardInterrupt):
    """A callback raises this to end training early; the run saves its state as after Ctrl-C."""


class ProgressCallback(TrainingCallback):
    """A TrainingCallback that calls a function; if it returns False, training ends and is saved."""

    def __init__(self, function: OnProgress) -> None:
        self.function, self.has_stopped = function, False

    def begin(self, trainer: Trainer, run: RunDir) -> None:
        """The function needs no trainer."""

    def end(self) -> None:
        """Nothing refers to the trainer."""

    def on_steps(self, trainer: Trainer, progress: Progress, check: Callable[[], None]) -> None:
        if self.function(progress) is False:
            self.has_stopped = True
            raise StoppedByCallback
