"""From a scene's folder to a run's folder: training, saving and measuring, in the order of their steps."""

import time
from collections.abc import Callable
from pathlib import Path

from splat_cli.config import TrainConfig
from splat_cli.console import Display, Progress
from splat_cli.device import Backend, open_backend
from splat_cli.device.cuda import why_no_cuda
from splat_cli.errors import DiskError
from splat_cli.files import require_space
from splat_cli.phase_timer import PhaseTimer
from splat_cli.run.callback import TrainingCallback
from splat_cli.run.checkpoints.checkpointer import Checkpointer
from splat_cli.run.checkpoints.file import Checkpoint
from splat_cli.run.checkpoints.state import checkpoint_bytes, restore_state
from splat_cli.run.interrupt import Interrupted, deferred_interrupt
from splat_cli.run.logs import RunLog
from splat_cli.run.memory_plan import fitting_trainer
from splat_cli.run.run_writer import RunWriter
from splat_cli.run.storage.result import RunResult
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.run.tensorboard_logger import require_tensorboard
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
    """Trains on the scene, from `checkpoint` on if there is one, and fills the run's folder; `callback` may look on.

    Raises SceneError; after Ctrl-C or SIGTERM, Interrupted once everything is saved; DiskError where the last splats
    could not be saved.
    """
    if config.tensorboard:
        require_tensorboard()
    config = with_fixed_paths(config, scene_path)
    if checkpoint is None:
        check_source(config)
    timer = PhaseTimer("starting")
    with timer("reading the scene"):
        data = read_data(scene_path, config, backend, display, checkpoint.num_splats if checkpoint else 0)
    display.say(f"Device: {backend.describe()}")
    run.save_cameras(data.scene.views)
    run.save_config(config, scene_path, backend.describe())  # with both, the folder is that of a run
    if data.is_split_by_name:
        write_split(run.split_path, *data.split)
    trainer = fitting_trainer(backend, data, config, display, timer)
    session = _Session(run, config, backend, display, trainer, data, callback)
    require_space(run.path, checkpoint_bytes(trainer.model.num, len(trainer.splats.params)))
    if checkpoint:
        session.continue_from(checkpoint)
    if callback:
        callback.begin(trainer, run)
    return session.train()


class _Session:
    """One training run: trains from save to save, and keeps the log and the timer."""

    def __init__(
        self,
        run: RunDir,
        config: TrainConfig,
        backend: Backend,
        display: Display,
        trainer: Trainer,
        data: TrainingData,
        callback: TrainingCallback | None,
    ) -> None:
        self.run, self.config, self.backend, self.display = run, config, backend, display
        self.trainer, self.timer = trainer, trainer.timer
        self.callback = callback
        self.checkpoints = Checkpointer(run.checkpoints_path, config, backend, display.warn)
        self.seconds = 0.0
        self.log = RunLog(run, display)
        self.writer = RunWriter(run, trainer, data, self.log.board, display)
        self._started = time.perf_counter()

    def continue_from(self, checkpoint: Checkpoint) -> None:
        """Goes on from there in place of the start."""
        restore_state(self.trainer, checkpoint)
        self.seconds = checkpoint.facts["seconds"]
        self.checkpoints.start_from(checkpoint.step)
        self.run.cut_log(checkpoint.step)
        self.writer.save_auxiliary()
        self.display.say(f"Going on from step {checkpoint.step}")

    def train(self) -> RunResult:
        first, last = self.trainer.step, self.config.steps
        self.log.start_from(first, self.seconds)
        if self.config.tensorboard:
            self.log.board.open(first)
        stops = sorted({step for step in self.config.save_at if first < step < last} | {last})
        with self.display.training(last, first) as show, deferred_interrupt() as check:

            def on_progress(progress: Progress) -> None:
                show(progress)
                self.log.note(self.trainer, progress, self._seconds_now(), last)
                with self.timer("checkpoints"):
                    self.checkpoints.save_if_due(self.trainer, self._seconds_now())
                check()
                self._let_look(progress, check)

            try:
                for stop in stops:
                    self._train_until(stop, on_progress)
                    self._save(stop)
                    check()
            except KeyboardInterrupt as error:
                raise Interrupted(self._stop_early(), error) from None
        self._close_log()
        trainer, score = self.trainer, self.writer.score
        result = RunResult(self.run, trainer.step, trainer.splats.num, self.seconds, score, trainer.bad_numbers)
        self.run.save_result(result.facts())
        return result

    def _let_look(self, progress: Progress, check: Callable[[], None]) -> None:
        """Lets the callback look on, who may keep training waiting: that is no time of training."""
        if self.callback is not None:
            began = time.perf_counter()
            with self.timer("viewer"):
                self.callback.on_steps(self.trainer, progress, check)
            self._started += time.perf_counter() - began

    def _train_until(self, stop: int, on_progress: Callable[[Progress], None]) -> None:
        self._started = time.perf_counter()
        with self.timer("training steps"):
            self.trainer.run_until(stop, on_progress)
            self.backend.synchronize()
        self.seconds, self._started = self._seconds_now(), time.perf_counter()

    def _seconds_now(self) -> float:
        return self.seconds + time.perf_counter() - self._started

    def _save(self, stop: int) -> None:
        """Writes the splats and measures on what is held out. A full disk ends the run only at its last step."""
        if stop == self.config.steps:
            with self.timer("checkpoints"):
                self.checkpoints.save(self.trainer, self.seconds)
        try:
            with self.timer("saving"):
                saved = self.writer.save()
                self.log.board.splats(stop, saved.splats)
                if saved.notice:
                    self.display.say(saved.notice)
            with self.timer("measuring"):
                self.writer.evaluate(self.seconds)
        except DiskError as error:
            if stop == self.config.steps:
                self.checkpoints.finish()
                raise DiskError(f"{error}, then: splat train --resume {self.run.path}") from error
            self.display.warn(f"{error}; training goes on")
        if stop == self.config.steps:
            self.checkpoints.finish()

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
