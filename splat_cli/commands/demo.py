"""Implementation of `splat demo`: trains, evaluates, renders and exports a sample scene."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import Backend
from splat_cli.gaussians.ply import read_ply, write_ply
from splat_cli.gaussians.splats import Splats
from splat_cli.io.image_files import open_image
from splat_cli.render.images import save_animation
from splat_cli.render.output.render_sequence import RenderSettings, render_sequence
from splat_cli.run.device import prepare_kernels
from splat_cli.run.storage.load_run import bake_for_viewers, load_trained_splats
from splat_cli.run.storage.result import RunSummary
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.run.train_scene import train_scene
from splat_cli.sample import make_sample_scene
from splat_cli.scene.trajectories.camera_path import interpolate_path
from splat_cli.terminal.console import Display

_NUM_FRAMES = 60
_FRAMES_PER_SECOND = 20


@dataclass
class Demo:
    """Output paths under `root`, and seconds of each part."""

    root: Path
    result: RunSummary
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def places(self) -> dict[str, Path]:
        """Description -> path."""
        return {
            "sample scene": self.root / "scene",
            "run": self.result.run.path,
            "frames of a camera path": self.root / "path",
            "animation": self.root / "path.webp",
            "splats": self.root / "splats.ply",
        }


def run_demo(root: Path, config: TrainConfig, backend: Backend, display: Display) -> Demo:
    """Write all outputs (`Demo.places`) to `root`, an existing folder."""
    seconds: dict[str, float] = {}
    prepare_kernels(backend, config)  # compiles while the scene is ray-traced on one core
    with _timed("sample scene", seconds):
        make_sample_scene(root / "scene", seed=config.seed)
    run = RunDir(root / "run")
    run.path.mkdir()
    with _timed("training, evaluation", seconds):
        result = train_scene(root / "scene", run, config, backend, display)
    with _timed("camera path", seconds):
        _render_path(root, result, config, backend, display)
    with _timed("export", seconds):
        write_ply(root / "splats.ply", bake_for_viewers(*load_trained_splats(run.path), backend))
    return Demo(root, result, seconds)


def _render_path(root: Path, result: RunSummary, config: TrainConfig, backend: Backend, display: Display) -> None:
    views = interpolate_path(result.run.views("all"), _NUM_FRAMES)
    splats = Splats.from_arrays(backend, read_ply(result.run.ply_path(result.steps)))
    settings = RenderSettings(result.run.background(), config.antialias, novel_views=True)
    with display.counting("pictures", len(views)) as count:
        written = render_sequence(backend, splats, views, root / "path", settings, on_frame=count)
    frames = [np.asarray(open_image(picture)) for picture in written.pictures]
    save_animation(root / "path.webp", frames, _FRAMES_PER_SECOND)


@contextmanager
def _timed(part: str, seconds: dict[str, float]) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[part] = time.perf_counter() - start
