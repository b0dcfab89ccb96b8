"""Restarts of a run on several GPUs that has lost a rank; advice at the end of a run that was stopped."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from splat_cli.config import TrainConfig
from splat_cli.console import Display
from splat_cli.device import Backend
from splat_cli.interrupt import Interrupted
from splat_cli.ranks.protocol import FailedRankError, RankError
from splat_cli.run.checkpoints.checkpointer import checkpoint_paths
from splat_cli.run.storage.find_run import is_run
from splat_cli.run.storage.run_dir import RunDir


class HasStep(Protocol):
    """The part of a checkpoint that restarts use."""

    step: int


T = TypeVar("T")
Start = TypeVar("Start", bound=HasStep)
MAX_RESTARTS = 3  # without a new checkpoint in between


class Restarts(Generic[Start]):
    """Counts the restarts of a run. find: its newest checkpoint, or None. options: see `resume_advice`.

    first: the checkpoint from which it starts.
    """

    def __init__(
        self, run: RunDir, config: TrainConfig, first: Start | None, find: Callable[[], Start | None], display: Display,
        options: str = "",
    ) -> None:  # fmt: skip
        self.run, self.config, self.display, self.options = run, config, display, options
        self._find = find
        self._first = first
        self._last_step = first.step if first else 0
        self._count = 0

    def repeat(self, attempt: Callable[[Start | None], T], clean_up: Callable[[], object]) -> T:
        """The result of `attempt`, which is called again, from another checkpoint, after the loss of a rank.

        clean_up: called between two attempts. Raises RankError as `next_start` does.
        """
        checkpoint = self._first
        while True:
            try:
                return attempt(checkpoint)
            except RankError as error:
                checkpoint = self.next_start(error)
            clean_up()  # after the `except` block: the exception keeps the objects of the attempt alive

    def next_start(self, error: RankError) -> Start | None:
        """The checkpoint to continue from after the loss of a rank, None for step 0; displays a message.

        RankError with advice if a restart would not help, or if there were too many.
        """
        checkpoint = self._find()
        step = checkpoint.step if checkpoint else 0
        if step > self._last_step:
            self._last_step, self._count = step, 0
        if isinstance(error, FailedRankError) or self._count >= MAX_RESTARTS:
            raise type(error)(f"{error}{resume_advice(self.run, self.config, self.options)}") from None
        self._count += 1
        self.display.warn(f"{error}; restarting from step {step} (restart {self._count} of {MAX_RESTARTS})")
        return checkpoint


def resume_advice(run: RunDir, config: TrainConfig, options: str = "") -> str:
    """The end of a message: the command that resumes a run; empty if it cannot be resumed.

    options: of the command, which are no settings.
    """
    command = " ".join(filter(None, ("splat train --resume", str(run.path), options)))
    return f"; continue with: {command}" if config.keep and is_run(run.path) else ""


def interruption(
    run: RunDir, config: TrainConfig, signal: KeyboardInterrupt, options: str = ""
) -> KeyboardInterrupt | Interrupted:
    """The exception for a signal outside of training, with the state that is saved and the command to resume.

    options: see `resume_advice`.
    """
    if not is_run(run.path):
        return signal
    newest = checkpoint_paths(run.checkpoints_path)[:1]
    saved = f"the newest checkpoint is {newest[0]}" if newest else "no checkpoint is saved yet"
    return Interrupted(f"Interrupted; {saved}{resume_advice(run, config, options)}", signal)


def free_memory(backend: Backend) -> None:
    """Free the memory of the trainer before a restart, which a reference cycle with captured graphs keeps alive."""
    gc.collect()
    backend.release_cached()
