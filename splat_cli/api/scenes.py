"""Functions of `import splat_cli` that read scenes, train and open runs; functions for splats are in splats.py."""

from __future__ import annotations

import dataclasses
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from splat_cli.api.result import TrainedScene
from splat_cli.config import TrainConfig
from splat_cli.config.presets import load_config, requested_settings, with_settings
from splat_cli.device import Backend, shared_backend
from splat_cli.errors import UsageError
from splat_cli.eval.evaluate import TrainedModel
from splat_cli.report import try_report
from splat_cli.run.device import open_device
from splat_cli.run.session import OnProgress, ProgressCallback, StoppedByCallback
from splat_cli.run.setup.initial_state import build_trainer_from_data
from splat_cli.run.setup.training_data import TrainingData, load_data, read_checked, warn_of_unused, with_initial_points
from splat_cli.run.setup.trials import choose_settings
from splat_cli.run.storage.find_run import find_splats, new_locked_run, step_of
from splat_cli.run.storage.inputs import inputs_of, warning_of_copies
from splat_cli.run.storage.load_run import load_model, load_run_images, warn_of_earlier_step
from splat_cli.run.train_scene import train_scene as train_into_run
from splat_cli.scene.dataset import SceneOptions
from splat_cli.scene.georeferenced import point_of
from splat_cli.scene.read import read_scene as read_scene_folder
from splat_cli.scene.view import Scene
from splat_cli.terminal.console import Display, Level, Progress
from splat_cli.terminal.interrupt import Interrupted
from splat_cli.train.initial_splats import check_source
from splat_cli.train.trainer import Trainer

_READING = frozenset(option.name for option in dataclasses.fields(SceneOptions)) | {"crop_start"}


def read_scene(path: str | Path, **settings: Any) -> Scene:
    """Read cameras and points of a scene; photographs are decoded only in training.

        scene = splat.read_scene("scenes/garden", downscale=2)
        scene.views[0].w2c                              # float64 [4, 4], x right, y down, z forward
        scene.views = scene.views[:100]                 # train on some of them
        result = splat.train_scene(scene)

    settings: see "Dataset" in docs/settings.md. SceneError if the scene cannot be read.
    """
    return read_scene_folder(path, SceneOptions.of(load_config(None, settings)))


def train_scene(
    scene: Scene | str | Path,
    config: TrainConfig | None = None,
    *,
    out: str | Path | None = None,
    device: str = "auto",
    on_progress: OnProgress | None = None,
    quiet: bool = False,
    **settings: Any,
) -> TrainedScene:
    """Train splats on the photographs of a scene, in memory or, like `splat train`, into the run's folder `out`.

        result = splat.train_scene("scenes/garden", steps=7000, eval=True)

    config: by default the default settings; `splat.load_config("quality")` loads a preset. settings override it and are
    named as in `splat train --help`, with underscores. on_progress: called a few times a second with step, loss, PSNR
    and number of splats; returning False ends training early:

        def on_progress(progress: splat.Progress) -> bool:
            print(progress.step, progress.psnr)
            return progress.num_splats < 500_000

    Without `quiet`, messages and a bar go to standard error. `out` must be new or empty. It needs a scene in a folder,
    so that the run can be resumed. In memory, settings about files (save_at, checkpoints, tensorboard, report) have no
    effect. Raises UsageError, SceneError, DeviceError, OutOfMemory.
    """
    config, display = with_initial_points(with_settings(config or TrainConfig(), settings)), _display(quiet)
    warn_of_unused(config, requested_settings(config), display)
    if out is not None:
        if isinstance(scene, Scene):
            raise UsageError("with out=, give the scene's folder instead of a Scene: the run needs it to continue")
        return _train_into(Path(out), Path(scene), config, device, on_progress, display)
    if isinstance(scene, Scene) and (late := settings.keys() & _READING):
        raise UsageError(f"{min(late)} is a setting of read_scene, and this scene has been read: give it to read_scene")
    scene = scene.checked() if isinstance(scene, Scene) else read_checked(Path(scene), config, display)
    return _result_of(*_train_in_memory(scene, config, open_device(device, config, display), display, on_progress))


def open_run(path: str | Path, *, device: str = "auto") -> TrainedScene:
    """The last splats saved by a run of `splat train`, with its cameras and held-out photographs.

    result = splat.open_run("runs/garden")
    print(result.evaluate())
    """
    ply, run = find_splats(Path(path))
    if run is None:
        raise UsageError(f"{path} is not the folder of a run: `splat.read_splats` reads files of splats")
    warn_of_earlier_step(ply, _display(quiet=True))
    backend, config = shared_backend(device), run.config()
    splats, color_field = load_model(ply, backend)
    held_out = run.views("test") if config.eval else []
    model = TrainedModel(splats, color_field, run.background(), run.responses())
    return TrainedScene(
        config,
        step_of(ply),
        run.views("all"),
        held_out,
        run.path,
        point_of(run.origin()),
        model,
        lambda: load_run_images(run, held_out, None, backend, _display(quiet=True)),
    )


def _train_into(
    out: Path, scene: Path, config: TrainConfig, device: str, on_progress: OnProgress | None, display: Display
) -> TrainedScene:
    callback = ProgressCallback(on_progress) if on_progress else None
    with new_locked_run(out) as run:
        backend = open_device(device, config, display)
        try:
            train_into_run(scene, run, config, backend, display, callback=callback)
            try_report(run, backend, display)
        except Interrupted:
            if callback is None or not callback.has_stopped or not run.saved_steps():
                raise
    return open_run(out, device=device)


def _train_in_memory(
    scene: Scene, config: TrainConfig, backend: Backend, display: Display, on_progress: OnProgress | None
) -> tuple[Trainer, TrainingData]:
    """The trainer after all steps, or fewer if `on_progress` returned False, and its training data.

    Writes no files: checkpoints, save_at, tensorboard and report are ignored. Raises SceneError and OutOfMemory.
    """
    if config.gpus > 1:
        raise UsageError("training in memory uses one GPU: leave out gpus, or train into a folder")
    check_source(config)
    data = load_data(scene, config, backend, display)
    if warning := warning_of_copies(data.split.test, inputs_of(scene.views if config.eval else [])):
        display.warn(warning)
    config, _ = choose_settings(config, data, backend, display)
    trainer = build_trainer_from_data(data, config, backend, display)
    with display.training(trainer.config.steps) as show, suppress(StoppedByCallback):

        def on_steps(progress: Progress) -> None:
            show(progress)
            for notice in trainer.notices:
                display.warn(notice)
            trainer.notices.clear()
            if on_progress and on_progress(progress) is False:
                raise StoppedByCallback

        trainer.run_until(trainer.config.steps, on_steps)
    return trainer, data


def _result_of(trainer: Trainer, data: TrainingData) -> TrainedScene:
    held_out = data.held_out
    if held_out is not None:
        held_out = held_out._replace(views=trainer.refined_views(held_out.views))
    joint = trainer.joint
    model = TrainedModel(trainer.splats, joint.field, trainer.background, joint.camera_responses())
    return TrainedScene(
        trainer.config,
        trainer.step,
        trainer.refined_views(data.scene.views),
        held_out.views if held_out else [],
        None,
        point_of(data.scene.origin),
        model,
        lambda: held_out,
    )


def _display(quiet: bool) -> Display:
    """Messages on standard error, with a bar on terminals and in notebooks."""
    return Display(level=Level.QUIET if quiet else Level.NORMAL, bar="ipykernel" in sys.modules or None)
