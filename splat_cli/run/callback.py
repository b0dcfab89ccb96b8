"""Who may look at a run while it trains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from splat_cli.console import Progress
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.train.trainer import Trainer


class TrainingCallback(Protocol):
    """Sees the trainer a few times a second, between two steps, in the thread that trains.

    Nothing else uses the device then, so an callback may; it must leave the trainer as it is. Its time does not
    count as training. What keeps training waiting calls `check` now and then, which raises KeyboardInterrupt when the
    user wants to stop.
    """

    def begin(self, trainer: Trainer, run: RunDir) -> None:
        """Called once, before the first step."""

    def on_steps(self, trainer: Trainer, progress: Progress, check: Callable[[], None]) -> None:
        """Called after every round of steps."""
