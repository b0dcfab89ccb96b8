"""Who may look at a run while it trains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from splat_cli.train.progress import Progress
from splat_cli.train.run_folder import RunFolder
from splat_cli.train.trainer import Trainer


class Observer(Protocol):
    """Sees the trainer a few times a second, between two steps, in the thread that trains.

    Nothing else uses the device then, so an observer may; it must leave the trainer as it is. Its time does not
    count as training. What keeps training waiting calls `check` now and then, which raises KeyboardInterrupt when the
    user wants to stop.
    """

    def begin(self, trainer: Trainer, run: RunFolder) -> None:
        """Called once, before the first step."""

    def look(self, trainer: Trainer, progress: Progress, check: Callable[[], None]) -> None:
        """Called after every round of steps."""
