"""Training without an output folder."""

from __future__ import annotations

from contextlib import suppress

from splat_cli.config import TrainConfig
from splat_cli.device import Backend
from splat_cli.errors import UsageError
from splat_cli.run.callback import OnProgress
from splat_cli.run.setup.build_run_trainer import build_trainer_from_data
from splat_cli.run.setup.training_data import TrainingData, load_data
from splat_cli.run.setup.trials import choose_settings
from splat_cli.scene.view import Scene
from splat_cli.terminal.console import Display, Progress
from splat_cli.train.initialization import check_source
from splat_cli.train.trainer import Trainer


def train_in_memory(
    scene: Scene, config: TrainConfig, backend: Backend, display: Display, on_progress: OnProgress | None = None
) -> tuple[Trainer, TrainingData]:
    """The trainer after all steps, or fewer if `on_progress` returned False, and its training data.

    Writes no files: checkpoints, save_at, tensorboard and report are ignored. Raises SceneError and OutOfMemory.
    """
    if config.gpus > 1:
        raise UsageError("training in memory uses one GPU: leave out gpus, or train into a folder")
    check_source(config)
    data = load_data(scene, config, backend, display)
    config, _ = choose_settings(config, data, backend, display)
    trainer = build_trainer_from_data(data, config, backend, display)
    with display.training(trainer.config.steps) as show, suppress(_Stopped):

        def on_steps(progress: Progress) -> None:
            show(progress)
            for notice in trainer.notices:
                display.warn(notice)
            trainer.notices.clear()
            if on_progress and on_progress(progress) is False:
                raise _Stopped

        trainer.run_until(trainer.config.steps, on_steps)
    return trainer, data


class _Stopped(Exception):
    """`on_progress` returned False."""
