"""What training has come to, in the run's folder: splats, cameras, a learned background, and scores."""

import numpy as np

from splat_cli.train.board import Board
from splat_cli.train.data import TrainingData
from splat_cli.train.evaluation import Score, mean_score
from splat_cli.train.measure import add_metrics, measure
from splat_cli.train.progress import Display
from splat_cli.train.recovery import beside
from splat_cli.train.refined import refined_views
from splat_cli.train.run_folder import RunFolder
from splat_cli.train.saving import Saved, save_splats
from splat_cli.train.trainer import Trainer


class Outcome:
    """Writes it as often as it is asked to, as of the trainer's step. score: what was measured last, if anything."""

    def __init__(self, run: RunFolder, trainer: Trainer, data: TrainingData, board: Board, display: Display) -> None:
        self.run, self.trainer, self.data, self.board, self.display = run, trainer, data, board, display
        self.score: Score | None = None

    def save(self) -> Saved:
        """Writes the splats, and what `save_besides` does. DiskError."""
        path = self.run.ply_path(self.trainer.step)
        saved = save_splats(self.trainer, path, self.data.training, self.display.say)
        self.save_besides()
        return saved

    def save_besides(self) -> None:
        """Writes where the cameras are now, where training moves them, and a learned background."""
        learned = self.trainer.besides.background_color()
        if learned:
            self.run.save_background(learned)
        if self.trainer.config.pose_opt:
            self.run.save_cameras(refined_views(self.trainer, self.data.scene.views))

    def measure(self, seconds: float) -> None:
        """Measures on what is held out, if anything is; writes and tells the scores. seconds: of training so far."""
        if self.data.held_out is None:
            return
        step, backend = self.trainer.step, self.trainer.backend
        scores = beside(self.trainer, self._scores)
        facts = {"num_splats": self.trainer.splats.num, "seconds": round(seconds, 2)}
        facts["peak_bytes"] = int(backend.peak_bytes)
        add_metrics(self.run, step, scores, backend.describe(), facts)
        self.score = mean_score(scores.values())
        self.board.scores(step, self.score)
        self.display.say(f"step {step}: held-out PSNR {self.score.psnr:.2f}, SSIM {self.score.ssim:.4f}")

    def _scores(self) -> dict[str, Score]:
        trainer, held_out = self.trainer, self.data.held_out
        assert held_out is not None
        held_out = held_out._replace(views=refined_views(trainer, held_out.views))

        def on_render(index: int, render: np.ndarray) -> None:
            self.board.render(trainer.step, index, held_out.views[index].name, render)

        return measure(
            trainer.backend, trainer.splats, held_out, trainer.config, on_render,
            field=trainer.besides.field, background=trainer.besides.background_color(),
        )  # fmt: skip
