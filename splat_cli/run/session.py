"""A training session: from a dataset to an output folder."""

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from splat_cli.config import TrainConfig
from splat_cli.console import Display, Progress
from splat_cli.device import Backend, open_backend
from splat_cli.device.cuda import why_no_cuda
from splat_cli.errors import DiskError
from splat_cli.files import require_space
from splat_cli.interrupt import Interrupted, deferred_interrupt
from splat_cli.phase_timer import PhaseTimer
from splat_cli.run.callback import TrainingCallback
from splat_cli.run.checkpoints.checkpointer import Checkpointer, checkpoint_of
from splat_cli.run.checkpoints.file import Checkpoint
from splat_cli.run.checkpoints.state import checkpoint_bytes, needs_initial_state, restore_state
from splat_cli.run.initial_state import find_initial_state, placeholder_state
from splat_cli.run.kernels import prepare_kernels
from splat_cli.run.logging.run_log import RunLog
from splat_cli.run.logging.tensorboard_logger import require_tensorboard
from splat_cli.run.make_trainer import fitting_trainer
from splat_cli.run.plan import RunPlan, resolve_plan
from splat_cli.run.run_writer import RunWriter
from splat_cli.run.storage.result import RunResult
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.run.training_data import TrainingData, read_data, with_fixed_paths
from splat_cli.scene.split import write_split
from splat_cli.train.initialization import check_source
from splat_cli.train.trainer import Trainer

_NVIDIA_DRIVER = Path("/dev/nvidiactl")


def open_device(name: str, config: TrainConfig, display: Display) -> Backend:
    """The device that a run's settings ask for: on the CPU, sums keep their order only on one thread.

    Warns where a GPU lies idle that nobody has declined.
    """
    backend = open_backend(name, threads=1 if config.deterministic else None)
    if name == "auto" and backend.name == "cpu" and _NVIDIA_DRIVER.exists():
        display.warn(f"there is an NVIDIA GPU, but {why_no_cuda()}; training on the CPU is much slower")
    return backend


def train_scene(
    scene_path: Path,
    run: RunDir,
    config: TrainConfig,
    backend: Backend,
    display: Display,
    checkpoint: Checkpoint | None = None,
    callback: TrainingCallback | None = None,
) -> RunResult:
    """Train on the scene, from `checkpoint` on if there is one, and fill the run's folder.

    Raises SceneError; after Ctrl-C or SIGTERM, Interrupted once everything is saved; DiskError where the last splats
    could not be saved.
    """
    if config.tensorboard:
        require_tensorboard()
    config = with_fixed_paths(config, scene_path)
    if checkpoint is None:
        check_source(config)
    timer = PhaseTimer("starting")
    prepare_kernels(backend, config)
    with timer("reading the scene"):
        data = read_data(scene_path, config, backend, display)
        plan = resolve_plan(config, data.training.views)
        config = plan.requested
        if checkpoint and not needs_initial_state(checkpoint, config):
            start = placeholder_state(data.training, checkpoint.num_splats)
        else:
            start = find_initial_state(data.scene, data.training, plan.config, backend, display)
    display.say(f"Device: {backend.describe()}")
    run.save_cameras(data.scene.views)
    run.save_config(config, scene_path, backend.describe())  # with both, the folder is that of a run
    if data.is_split_by_name:
        write_split(run.split_path, *data.split)
    trainer = fitting_trainer(backend, plan, data, start, display, timer)
    session = _Session(run, plan, backend, display, trainer, data, callback)
    require_space(run.path, checkpoint_bytes(trainer.model.num, len(trainer.splats.params)))
    if checkpoint:
        session.continue_from(checkpoint)
    if callback:
        callback.begin(trainer, run)
    return session.train()


class _Session:
    """Trains from one save to the next, and keeps the log and the time."""

    def __init__(
        self,
        run: RunDir,
        plan: RunPlan,
        backend: Backend,
        display: Display,
        trainer: Trainer,
        data: TrainingData,
        callback: TrainingCallback | None,
    ) -> None:
        self.run, self.config, self.backend, self.display = run, plan.config, backend, display
        self.trainer, self.timer = trainer, trainer.timer
        self.callback = callback
        unsaved = functools.partial(run.unsaved_steps, plan.requested)
        self.checkpoints = Checkpointer(run.checkpoints_path, plan.requested, backend, display.warn, unsaved)
        self.seconds = 0.0
        self.log = RunLog(run, display)
        self.writer = RunWriter(run, plan.requested, trainer, data, self.log.board, display)
        self._started = time.perf_counter()
        self._check: Callable[[], None] = lambda: None

    def continue_from(self, checkpoint: Checkpoint) -> None:
        """Restore the checkpoint's state in place of the initial one. Saves before what earlier sessions could not."""
        for step in self.run.unsaved_steps(self.config, checkpoint.step):
            earlier = checkpoint if step == checkpoint.step else checkpoint_of(self.run.checkpoints_path, step)
            if earlier is not None:
                restore_state(self.trainer, earlier)
                self.seconds = earlier.facts["seconds"]
                self._save_results(step)
        restore_state(self.trainer, checkpoint)
        self.seconds = checkpoint.facts["seconds"]
        self.checkpoints.start_from(checkpoint.step)
        self.run.cut_log(checkpoint.step)
        self.writer.save_auxiliary()
        self.display.say(f"Going on from step {checkpoint.step}")

    def train(self) -> RunResult:
        """Train to the last step and save the result."""
        trainer, first, last = self.trainer, self.trainer.step, self.config.steps
        self.log.start_from(first, self.seconds)
        if self.config.tensorboard:
            self.log.board.open(first)
        with self.display.training(last, first) as show:
            on_progress = functools.partial(self._on_progress, show)
            with self._training_time():  # compiles kernels: signals act at once, nothing is lost yet
                trainer.run_until(min(first + 1, last), on_progress)
            with deferred_interrupt() as self._check:
                try:
                    for stop in sorted({step for step in self.config.save_at if first < step < last} | {last}):
                        with self._training_time():
                            trainer.run_until(stop, on_progress)
                        self._save(stop)
                        self._check()
                except KeyboardInterrupt as error:
                    raise Interrupted(self._stop_early(), error) from None
                except Exception:
                    self.checkpoints.finish()
                    raise
        self._close_log()
        result = RunResult(
            self.run, trainer.step, trainer.splats.num, self.seconds, self.writer.score, trainer.bad_numbers
        )
        self.run.save_result(result.facts())
        return result

    @contextmanager
    def _training_time(self) -> Iterator[None]:
        """Adds the seconds inside to those of training."""
        self._started = time.perf_counter()
        with self.timer("training steps"):
            yield
            self.backend.synchronize()
        self.seconds, self._started = self._seconds_now(), time.perf_counter()

    def _on_progress(self, show: Callable[[Progress], None], progress: Progress) -> None:
        """Between two rounds of steps: show, log, save what is due, let the callback work."""
        show(progress)
        self.log.note(self.trainer, progress, self._seconds_now(), self.config.steps)
        with self.timer("checkpoints"):
            self.checkpoints.save_if_due(self.trainer, self._seconds_now())
        self._check()
        if self.callback is not None:  # which may pause training: its time does not count as training
            began = time.perf_counter()
            with self.timer("viewer"):
                self.callback.on_steps(self.trainer, progress, self._check)
            self._started += time.perf_counter() - began

    def _seconds_now(self) -> float:
        return self.seconds + time.perf_counter() - self._started

    def _save(self, stop: int) -> None:
        """Writes the splats and measures on what is held out. A disk that fails ends the run only at its last step."""
        if stop < self.config.steps:
            if not self._save_results(stop):
                self.checkpoints.save(self.trainer, self.seconds)  # for the next session to save from
            return
        with self.timer("checkpoints"):
            self.checkpoints.save(self.trainer, self.seconds)
        try:
            self._write_results(stop)
        except DiskError as error:
            raise DiskError(f"{error}, then: splat train --resume {self.run.path}") from error
        self.checkpoints.finish()

    def _save_results(self, step: int) -> bool:
        """False, with a warning, where the disk fails."""
        try:
            self._write_results(step)
        except DiskError as error:
            later = "; splat train --resume makes up for it later" if self.config.keep else ""
            self.display.warn(f"{error}; training goes on{later}")
            return False
        return True

    def _write_results(self, step: int) -> None:
        with self.timer("saving"):
            saved = self.writer.save()
            self.log.board.splats(step, saved.splats)
            if saved.notice:
                self.display.say(saved.notice)
        with self.timer("measuring"):
            self.writer.evaluate(self.seconds)

    def _close_log(self) -> None:
        phases = self.timer.seconds
        self.log.close(self.trainer.step, phases)
        self.display.detail("Time: " + ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in phases.items()))

    def _stop_early(self) -> str:
        """Saves what is there after the first signal; returns what to tell the user."""
        step = self.trainer.step
        self.checkpoints.save(self.trainer, self._seconds_now())
        try:
            self.writer.save()
            saved = f"the splats so far are in {self.run.ply_path(step)}"
        except DiskError as error:
            saved = str(error)
        self.checkpoints.finish()
        self._close_log()
        go_on = f"; go on with: splat train --resume {self.run.path}" if self.config.keep else ""
        return f"Interrupted after step {step}; {saved}{go_on}"
