"""A training session: steps between saves, with log, checkpoints, signals, callbacks and measured time."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from splat_cli.errors import DiskError, SceneError, UsageError, quoted
from splat_cli.ranks.protocol import RankError
from splat_cli.run.checkpoints.checkpointer import Checkpointer, checkpoint_path, checkpoint_paths
from splat_cli.run.checkpoints.file import Checkpoint, read_checkpoint
from splat_cli.run.checkpoints.state import restore_state
from splat_cli.run.plan import RunPlan
from splat_cli.run.resume import resume_advice
from splat_cli.run.run_writer import RunWriter
from splat_cli.run.setup.training_data import TrainingData
from splat_cli.run.storage.result import RunSummary
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.run.training_log import RunLog
from splat_cli.terminal.console import Display, Progress
from splat_cli.terminal.interrupt import Interrupted, deferred_interrupt
from splat_cli.terminal.phase_timer import Stopwatch
from splat_cli.train.trainer import Trainer

_COMPILING = "Compiling kernels; later runs find them in the cache"
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


class Session:
    """A trainer and the folder of its run: `restore` a checkpoint, `begin`, and `train` the remaining steps."""

    def __init__(
        self,
        run: RunDir,
        plan: RunPlan,
        display: Display,
        trainer: Trainer,
        data: TrainingData,
        callback: TrainingCallback | None,
    ) -> None:
        self.run, self.config, self.display, self.callback = run, plan.config, display, callback
        self.trainer, self.timer = trainer, trainer.timer
        unsaved = functools.partial(run.unsaved_steps, plan.requested)
        self.checkpoints = Checkpointer(run.checkpoints_path, plan.requested, trainer.backend, display.warn, unsaved)
        self.clock = Stopwatch()
        self.log = RunLog(run, display)
        self.writer = RunWriter(run, plan.requested, trainer, data, self.log.board, display)
        self._deferred: Callable[[], None] = lambda: None
        self._is_between_steps = False
        """If not, a second signal may have interrupted a step: its state is not saved."""

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore the state of the checkpoint; writes nothing. Raises as `restore_state`."""
        restore_state(self.trainer, checkpoint)
        self.clock = Stopwatch(checkpoint.metadata["seconds"])
        self.checkpoints.start_from(checkpoint.step)

    def begin(self, checkpoint: Checkpoint | None) -> None:
        """Prepare the files of the run for the steps after the restored checkpoint, None for step 0.

        Writes results that earlier sessions failed to write.
        """
        if checkpoint is None:
            if self.run.log.path.is_file():  # from a session without a checkpoint
                self.run.log.cut(0)
            return
        self.run.log.cut(checkpoint.step)
        for step in self.run.unsaved_steps(self.config, checkpoint.step):
            earlier = checkpoint if step == checkpoint.step else self._earlier(step)
            if earlier is not None:
                restore_state(self.trainer, earlier)
                self.writer.try_to_write(earlier.metadata["seconds"], polish=step == self.config.steps)
                restore_state(self.trainer, checkpoint)
        self.writer.save_joint_models()
        self.display.say(f"Continuing from step {checkpoint.step}")

    def _earlier(self, step: int) -> Checkpoint | None:
        """The checkpoint after `step` steps; None, with a warning, if it cannot be read."""
        path = checkpoint_path(self.run.checkpoints_path, step)
        if not path.is_file():
            return None
        try:
            return read_checkpoint(path)
        except UsageError as error:
            self.display.warn(f"{error}; the results of step {step} are not written")
            return None

    def train(self, wait_for_kernels: Callable[[], None]) -> RunSummary:
        """Train to the last step and save the result.

        wait_for_kernels: returns when the kernels of the run are compiled, except for those that depend on photographs.
        """
        trainer, first, last = self.trainer, self.trainer.step, self.config.steps
        self.log.start_from(first, self.clock.seconds)
        if self.config.tensorboard:
            self.log.board.open(first)
        with self._closed_after_loss(), self.timer("compiling"), self.display.explaining(_COMPILING):
            wait_for_kernels()  # signals may end this and the first step at once
        with self.display.training(last, first) as show:
            on_progress = functools.partial(self._on_progress, show)
            with self._closed_after_loss():
                try:
                    self._run_until(min(first + 1, last), on_progress)  # compiles kernels that depend on photographs
                except StoppedByCallback as error:
                    raise Interrupted(self._stop_early(), error) from None
            with deferred_interrupt() as self._deferred, self._closed_after_loss():
                self._train_and_save(
                    [*(step for step in self.config.save_steps if first < step < last), last], on_progress
                )
        self._close_log()
        result = RunSummary(
            self.run, trainer.step, trainer.num_splats, self.clock.seconds, self.writer.score, trainer.nonfinite_counts
        )
        self.run.save_result(result.to_dict())
        return result

    def _train_and_save(self, stops: Sequence[int], on_progress: Callable[[Progress], None]) -> None:
        """Train to each of the steps `stops`, and save. After an error, checkpoints are complete."""
        try:
            for stop in stops:
                self._run_until(stop, on_progress)
                self._save(stop)
                self._check_signals()
        except KeyboardInterrupt as error:
            if not self._is_between_steps:
                self.checkpoints.finish()
                raise
            raise Interrupted(self._stop_early(), error) from None
        except SceneError as error:  # photographs can no longer be read
            self.checkpoints.finish()
            raise SceneError(f"{error}{resume_advice(self.run, self.config)}") from error
        except Exception:
            self.checkpoints.finish()
            raise

    def _check_signals(self) -> None:
        """Raise KeyboardInterrupt if a signal came since the last call. Only between two steps."""
        self._is_between_steps = True
        self._deferred()
        self._is_between_steps = False

    def _run_until(self, step: int, on_progress: Callable[[Progress], None]) -> None:
        with self.clock.running(), self.timer("training steps"):
            self.trainer.run_until(step, on_progress)
            self.trainer.backend.synchronize()

    def _on_progress(self, show: Callable[[Progress], None], progress: Progress) -> None:
        """Between two rounds of steps: display, log, checkpoint if due, callback."""
        show(progress)
        self.log.record(self.trainer, progress, self.clock.seconds, self.config.steps)
        with self.timer("checkpoints"):
            self.checkpoints.save_if_due(self.trainer, self.clock.seconds)
        self._check_signals()
        if self.callback is not None:  # it may pause training
            with self.clock.paused(), self.timer("viewer"):
                self._is_between_steps = True
                self.callback.on_steps(self.trainer, progress, self._check_signals)
                self._is_between_steps = False

    def _save(self, stop: int) -> None:
        """Write results after step `stop`. A write error is fatal only after the last step."""
        if stop < self.config.steps:
            if not checkpoint_paths(self.run.checkpoints_path):  # without a checkpoint, saved splats prevent a resume
                self.checkpoints.save(self.trainer, self.clock.seconds)
                self.checkpoints.finish()
            if not self.writer.try_to_write(self.clock.seconds, polish=False):
                self.checkpoints.save(self.trainer, self.clock.seconds)  # the next session writes results from it
            return
        with self.timer("checkpoints"):
            self.checkpoints.save(self.trainer, self.clock.seconds)
        try:
            self.writer.write(self.clock.seconds, polish=True)
        except DiskError as error:
            raise DiskError(f"{error}, then: splat train --resume {quoted(self.run.path)}") from error
        self.checkpoints.finish()

    def _close_log(self) -> None:
        phases = self.timer.seconds
        self.log.close(self.trainer.step, phases)
        self.display.detail("Time: " + ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in phases.items()))

    def _stop_early(self) -> str:
        """Save the state between two steps; returns a message for the user."""
        step = self.trainer.step
        try:
            self.checkpoints.save(self.trainer, self.clock.seconds)
            self.writer.save_splats()
            saved = f"the splats so far are in {self.run.ply_path(step)}"
        except (DiskError, RankError) as error:
            saved = str(error)
        self.checkpoints.finish()
        self._close_log()
        return f"Interrupted after step {step}; {saved}{resume_advice(self.run, self.config)}"

    @contextmanager
    def _closed_after_loss(self) -> Iterator[None]:
        """After the loss of a rank, finish writing files; Interrupted if a signal has asked to end anyway."""
        try:
            yield
        except RankError as error:
            self.checkpoints.finish()
            self._close_log()
            try:
                self._check_signals()
            except KeyboardInterrupt as signal:
                message = f"Interrupted after step {self.trainer.step}; {error}{resume_advice(self.run, self.config)}"
                raise Interrupted(message, signal) from None
            raise
