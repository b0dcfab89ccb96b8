"""Sources of a viewer: splats, cameras and photographs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import Backend
from splat_cli.errors import SceneError
from splat_cli.gaussians.formats import read_splats
from splat_cli.gaussians.splats import Splats
from splat_cli.render.images import background_color
from splat_cli.render.view import render_image
from splat_cli.run.setup.training_data import load_image_set
from splat_cli.run.storage.find_run import find_splats
from splat_cli.run.storage.load_run import other_scene, read_run_scene, warn_of_earlier_step
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.view import View
from splat_cli.terminal.console import Display, Level
from splat_cli.train.trainer import Trainer


class SplatSource(Protocol):
    """Call the methods in the thread that owns the device."""

    @property
    def views(self) -> list[View]:
        """Current cameras."""

    @property
    def splats(self) -> Splats:
        """Current splats."""

    @property
    def config(self) -> TrainConfig:
        """Settings of the training."""

    @property
    def background(self) -> tuple[float, float, float]:
        """Background colour, RGB, 0 to 1."""

    def photograph(self, index: int, step: int = 1) -> np.ndarray | None:
        """Photograph of camera `index`, uint8 [H, W, 3], subsampled by `step`; None if missing."""


def picture(source: SplatSource, index: int) -> np.ndarray:
    """Render of camera `index`, uint8 [H, W, 3], as in training."""
    return render_image(source.splats, source.views[index], source.background, source.config.antialias)


class LiveSource:
    """Splats, training cameras and photographs of `trainer`, which must be set before use."""

    def __init__(self, trainer: Trainer | None = None) -> None:
        self.trainer = trainer

    @property
    def _trainer(self) -> Trainer:
        assert self.trainer is not None
        return self.trainer

    @property
    def views(self) -> list[View]:
        return self._trainer.refined_views(self._trainer.cameras.views)

    @property
    def splats(self) -> Splats:
        return self._trainer.splats

    @property
    def config(self) -> TrainConfig:
        return self._trainer.config

    @property
    def background(self) -> tuple[float, float, float]:
        return self._trainer.background

    def photograph(self, index: int, step: int = 1) -> np.ndarray:
        return np.ascontiguousarray(self._trainer.images.images.images[index][::step, ::step])


@dataclass(frozen=True)
class FileSource:
    """A run or a file of splats. photographed: views of the run's scene by name, empty without the scene."""

    splats: Splats
    config: TrainConfig
    views: list[View]
    photographed: dict[str, View]
    run: RunDir | None

    @property
    def background(self) -> tuple[float, float, float]:
        return self.run.background() if self.run else background_color(self.config.background)

    def photograph(self, index: int, step: int = 1) -> np.ndarray | None:
        view = self.photographed.get(self.views[index].name)
        if view is None:
            return None
        try:
            quiet = Display(level=Level.QUIET, bar=False)
            found = load_image_set([view], self.config, self.splats.backend, quiet)
        except SceneError:
            return None
        return np.ascontiguousarray(found.images[0][::step, ::step])


def open_source(source: Path, backend: Backend, display: Display, spz_axes: str = "RUB") -> FileSource:
    """The last splats of a run, or the splats of a file; warns about missing photographs. UsageError.

    spz_axes: see read_splats.
    """
    file, run = find_splats(source)
    arrays = read_splats(file, spz_axes)
    warn_of_earlier_step(source, display)
    for note in arrays.reading_notes(file):
        display.warn(note)
    splats = Splats.from_arrays(backend, arrays)
    if run is None:
        return FileSource(splats, TrainConfig(antialias=arrays.antialiased), [], {}, None)
    config = run.config()
    try:
        photographed = {view.name: view for view in read_run_scene(run, None).views}
        if others := other_scene(run, run.scene_path(), list(photographed.values())):
            display.warn(f"{others}: it is compared with other photographs")
    except SceneError as error:
        display.warn(f"no photographs to compare with: {error}")
        photographed = {}
    return FileSource(splats, config, run.views("all"), photographed, run)
