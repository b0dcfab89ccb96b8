"""Callbacks of training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from splat_cli.console import Progress
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.train.trainer import Trainer

OnProgress = Callable[[Progress], bool | None]
"""A function of a program that trains; training ends early where it returns False."""


class TrainingCallback(Protocol):
    """Sees the trainer a few times a second, between two steps, in the thread that trains.

    Nothing else uses the device then, so a callback may; it must leave the trainer as it is. Its time does not
    count as training. What keeps training waiting calls `check` now and then, which raises KeyboardInterrupt when the
    user wants to stop.
    """

    def begin(self, trainer: Trainer, run: RunDir) -> None:
        """Called once, before the first step."""

    def on_steps(self, trainer: Trainer, progress: Progress, check: Callable[[], None]) -> None:
        """Called after every round of steps."""


class ProgressCallback:
    """A TrainingCallback that calls a function; where it returns False, the run ends as after Ctrl-C."""

    def __init__(self, function: OnProgress) -> None:
        self.function, self.has_stopped = function, False

    def begin(self, trainer: Trainer, run: RunDir) -> None:
        """See TrainingCallback.begin."""

    def on_steps(self, trainer: Trainer, progress: Progress, check: Callable[[], None]) -> None:
        """See TrainingCallback.on_steps."""
        if self.function(progress) is False:
            self.has_stopped = True
            raise KeyboardInterrupt
