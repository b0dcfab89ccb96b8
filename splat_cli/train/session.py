"""From a scene's folder to a run's folder: reading, training, saving and measuring, in the order of their steps."""

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from splat_cli.config import TrainConfig
from splat_cli.device import Backend
from splat_cli.errors import SceneError
from splat_cli.gaussians.ply import write_ply
from splat_cli.scene.images import Photographs, load_images
from splat_cli.scene.read import read_scene
from splat_cli.scene.split import split
from splat_cli.scene.view import Scene, View
from splat_cli.train.evaluation import Score, mean_score
from splat_cli.train.interrupt import Interrupted, deferred_interrupt
from splat_cli.train.measure import add_metrics, measure
from splat_cli.train.progress import Display, Progress
from splat_cli.train.run_folder import RunFolder
from splat_cli.train.trainer import Trainer

_LOG_INTERVAL = 1.0
_SKIPPED_SHOWN = 5


@dataclass(frozen=True)
class RunResult:
    """What a run ended with; `seconds` of training, without reading, saving and measuring."""

    run: RunFolder
    steps: int
    num_splats: int
    seconds: float
    score: Score | None


def train_scene(scene_path: Path, run: RunFolder, config: TrainConfig, backend: Backend, display: Display) -> RunResult:
    """Trains on the scene and fills the run's folder. Raises SceneError; after Ctrl-C, Interrupted once it is saved."""
    config = _with_fixed_images(config, scene_path)
    scene = read_scene(scene_path, images=config.images, max_size=config.max_size, downscale=config.downscale)
    if len(scene.points) == 0:
        raise SceneError(f"{scene_path} holds no points to start from: triangulate the model again")
    train_views, test_views = split(scene.views, config.test_every if config.eval else 0)
    if not train_views:
        raise SceneError(f"{scene_path} has too few photographs to hold one out: train without --eval")
    training = _photographs(train_views, display)
    held_out = _photographs(test_views, display) if test_views else None
    _report_skipped(scene, [*scene.skipped, *training.skipped, *(held_out.skipped if held_out else ())], display)
    run.save_config(config, scene_path, backend.describe())
    run.save_cameras(scene.views)
    trainer = Trainer(backend, training.views, training.images, scene.points, scene.colors, config)
    return _Session(run, config, backend, display, trainer, held_out).train()


class _Session:
    """One training run: trains from save to save, and keeps the log and the clock."""

    def __init__(
        self,
        run: RunFolder,
        config: TrainConfig,
        backend: Backend,
        display: Display,
        trainer: Trainer,
        held_out: Photographs | None,
    ) -> None:
        self.run = run
        self.config = config
        self.backend = backend
        self.display = display
        self.trainer = trainer
        self.held_out = held_out
        self.score: Score | None = None
        self.seconds = 0.0
        self._started = self._last_log = 0.0

    def train(self) -> RunResult:
        stops = sorted({step for step in self.config.save_at if step < self.config.steps} | {self.config.steps})
        with self.display.training(self.config.steps) as show, deferred_interrupt() as check:

            def on_progress(progress: Progress) -> None:
                show(progress)
                self._log(progress)
                check()

            try:
                for stop in stops:
                    self._train_until(stop, on_progress)
                    self._save()
                    check()
            except KeyboardInterrupt:
                raise Interrupted(self._stop_early()) from None
        return RunResult(self.run, self.trainer.step, self.trainer.splats.num, self.seconds, self.score)

    def _train_until(self, stop: int, on_progress: Callable[[Progress], None]) -> None:
        self._started = time.perf_counter()
        try:
            self.trainer.run_until(stop, on_progress)
            self.backend.synchronize()
        finally:
            self.seconds += time.perf_counter() - self._started

    def _log(self, progress: Progress) -> None:
        now = time.perf_counter()
        if now - self._last_log >= _LOG_INTERVAL or progress.step == self.config.steps:
            self._last_log = now
            seconds = self.seconds + now - self._started
            self.run.log({**dataclasses.asdict(progress), "seconds": round(seconds, 3)})

    def _save(self) -> None:
        """Writes the splats and, where photographs are held out, measures on them."""
        step = self.trainer.step
        write_ply(self.run.ply_path(step), self.trainer.splats.to_arrays())
        if self.held_out is None:
            return
        scores = measure(self.backend, self.trainer.splats, self.held_out, self.config)
        facts = {"num_splats": self.trainer.splats.num, "seconds": round(self.seconds, 2)}
        facts["peak_bytes"] = int(self.backend.peak_bytes)
        add_metrics(self.run, step, scores, self.backend.describe(), facts)
        self.score = mean_score(scores.values())
        self.display.say(f"step {step}: held-out PSNR {self.score.psnr:.2f}, SSIM {self.score.ssim:.4f}")

    def _stop_early(self) -> str:
        """Saves what is there after Ctrl-C; returns what to tell the user."""
        step = self.trainer.step
        path = self.run.ply_path(step)
        write_ply(path, self.trainer.splats.to_arrays())
        return f"Interrupted after step {step}; the splats so far are in {path}"


def _photographs(views: list[View], display: Display) -> Photographs:
    with display.counting("photographs", len(views)) as on_photograph:
        return load_images(views, on_photograph)


def _report_skipped(scene: Scene, skipped: list[str], display: Display) -> None:
    if scene.num_dropped_points:
        display.say(f"Left out {scene.num_dropped_points:,} points that are not finite")
    if skipped:
        more = f" and {len(skipped) - _SKIPPED_SHOWN} more" if len(skipped) > _SKIPPED_SHOWN else ""
        display.say(f"Left out {len(skipped)} photographs: {'; '.join(skipped[:_SKIPPED_SHOWN])}{more}")


def _with_fixed_images(config: TrainConfig, scene: Path) -> TrainConfig:
    """A folder of photographs that was given relative to where the user is, made absolute for later commands."""
    if config.images is None or (scene / config.images).is_dir():
        return config
    return dataclasses.replace(config, images=str(Path(config.images).resolve()))
