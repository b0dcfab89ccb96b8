"""Results of training in the run's folder: splats, cameras, background, metrics."""

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.errors import DiskError, SceneError
from splat_cli.eval.evaluate import TrainedModel, evaluate, free_space_metrics
from splat_cli.eval.metrics import Score, mean_score
from splat_cli.io.folder_lock import locked_file
from splat_cli.run.export_splats import RunSplats, polished, save_splats, splats_of_run
from splat_cli.run.setup.training_data import TrainingData
from splat_cli.run.storage.result import updated_metrics
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.run.training_log import TensorBoardLogger
from splat_cli.terminal.console import Display
from splat_cli.train.trainer import Trainer


class RunWriter:
    """Writes results of the trainer. config: settings as requested. score: mean of the last evaluation, if any."""

    def __init__(
        self,
        run: RunDir,
        config: TrainConfig,
        trainer: Trainer,
        data: TrainingData,
        board: TensorBoardLogger,
        display: Display,
    ) -> None:
        self.run, self.config, self.trainer, self.data = run, config, trainer, data
        self.board, self.display = board, display
        self.score: Score | None = None

    def write(self, seconds: float, polish: bool) -> None:
        """Write the splats and evaluate on held-out photographs. Raises DiskError.

        seconds: training time so far. polish: fine-tune splats after baking a colour field into them.
        """
        timer = self.trainer.timer
        with timer("saving"):
            self.board.splats(self.trainer.step, self.save_splats(polish).standard)
        with timer("measuring"):
            self._evaluate(seconds)

    def try_to_write(self, seconds: float, polish: bool) -> bool:
        """`write`; after a DiskError, or without photographs to evaluate on, warn and return False."""
        try:
            self.write(seconds, polish)
        except (DiskError, SceneError) as error:
            later = "; splat train --resume makes up for it later" if self.config.keep else ""
            self.display.warn(f"{error}; training continues{later}")
            return False
        return True

    def save_splats(self, polish: bool = False) -> RunSplats:
        """Write the splats, refined cameras and the background. Raises DiskError."""
        trainer, config = self.trainer, self.config
        splats = splats_of_run(trainer, config, self.data.scene.origin)
        if polish:
            splats = polished(splats, trainer, config, self.data.training, self.display.say)
        if message := save_splats(self.run.ply_path(trainer.step), splats, trainer):
            self.display.say(message)
        self.save_joint_models()
        return splats

    def save_joint_models(self) -> None:
        """Write the background that settings do not give, camera responses and poses."""
        if self.trainer.config.background in ("learned", "random"):
            self.run.save_background(self.trainer.background)
        responses = self.trainer.joint.camera_responses()
        if responses:
            self.run.save_responses(responses)
        if self.trainer.config.pose_opt:
            scene = self.data.scene
            self.run.save_cameras(self.trainer.refined_views(scene.views), scene.origin)

    def _evaluate(self, seconds: float) -> None:
        """Evaluate on the held-out photographs, if any; write and display the scores."""
        if self.data.held_out is None:
            return
        step, backend = self.trainer.step, self.trainer.backend
        scores = self.trainer.run_with_memory_fallback(self._scores)
        extra = {"num_splats": self.trainer.num_splats, "seconds": round(seconds, 3)}
        extra |= {"peak_bytes": int(backend.peak_bytes), **self.trainer.run_with_memory_fallback(self._free_space)}
        with locked_file(self.run.metrics_path):
            self.run.save_metrics(updated_metrics(self.run, self.config, step, scores, backend.describe(), extra))
        self.score = mean_score(scores.values())
        self.board.scores(step, self.score)
        self.display.say(f"step {step}: held-out PSNR {self.score.psnr:.2f}, SSIM {self.score.ssim:.4f}")

    def _free_space(self) -> dict[str, float]:
        trainer, held_out = self.trainer, self.data.held_out
        assert held_out is not None
        views = {"": trainer.refined_views(held_out.views), "_train": trainer.refined_views(self.data.training.views)}
        return free_space_metrics(
            trainer.backend, trainer.splats, views, self.data.scene.points, trainer.config.antialias
        )

    def _scores(self) -> dict[str, Score]:
        trainer, held_out = self.trainer, self.data.held_out
        assert held_out is not None
        held_out = held_out._replace(views=trainer.refined_views(held_out.views))

        def on_render(index: int, render: np.ndarray) -> None:
            self.board.render(trainer.step, index, held_out.views[index].name, render)

        joint = trainer.joint
        model = TrainedModel(trainer.splats, joint.field, trainer.background, joint.camera_responses())
        return evaluate(model, held_out, trainer.config, on_render=on_render)
