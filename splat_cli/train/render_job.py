"""What `splat render` is to render: which splats, from where, on which background, into which folder."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from splat_cli.config import TrainConfig
from splat_cli.device import Backend
from splat_cli.errors import UsageError
from splat_cli.gaussians.formats import read_splats
from splat_cli.gaussians.splats import Splats
from splat_cli.render.pictures import background_color
from splat_cli.render.to_files import render_to_files
from splat_cli.scene.camera_path import interpolate_path, with_size
from splat_cli.scene.cameras_json import read_cameras
from splat_cli.scene.view import View
from splat_cli.train.progress import Display
from splat_cli.train.run_folder import find_splats


@dataclass(frozen=True)
class RenderJob:
    """The splats in `file` seen from `views`; `folder` is where pictures go if nobody says otherwise.

    antialias: None for what the file says of itself; most formats say nothing, and mean what every viewer shows.
    """

    file: Path
    views: list[View]
    background: tuple[float, float, float]
    antialias: bool | None
    folder: Path

    def with_look(self, background: tuple[float, float, float] | None, antialias: bool | None) -> Self:
        """The same job with what is given in place of what the run was trained with."""
        return replace(
            self,
            background=self.background if background is None else background,
            antialias=self.antialias if antialias is None else antialias,
        )

    def along_path(self, num_frames: int) -> Self:
        """A smooth path through the views instead of the views."""
        return replace(self, views=interpolate_path(self.views, num_frames), folder=self.folder.parent / "path")

    def with_size(self, width: int, height: int) -> Self:
        """The same views at another size in pixels."""
        return replace(self, views=[with_size(view, width, height) for view in self.views])

    def render(self, backend: Backend, folder: Path | None, display: Display) -> list[Path]:
        """Writes the pictures and returns their paths."""
        arrays = read_splats(self.file)
        splats = Splats.from_arrays(backend, arrays)
        with display.counting("pictures", len(self.views)) as count:
            return render_to_files(
                backend,
                splats,
                self.views,
                folder or self.folder,
                self.background,
                arrays.antialiased if self.antialias is None else self.antialias,
                on_picture=lambda picture: count(1),
            )


def plan_job(source: Path, which: str | None = None, cameras: Path | None = None) -> RenderJob:
    """A job for a run or a file of splats: views of the run ("test", "train", "all"), or those of a JSON file."""
    file, run = find_splats(source)
    if cameras is None and run is None:
        raise UsageError(f"{source} brings no views: give some with --cameras FILE.json")
    config = run.config() if run else TrainConfig()
    which = which or ("test" if config.eval else "all")
    if cameras is not None:
        views, name = read_cameras(cameras), cameras.stem
    elif run is not None:
        views, name = run.views(which), which
    root = run.path / "renders" if run else Path("renders")
    antialias = config.antialias if run else None
    return RenderJob(file, views, background_color(config.background), antialias, root / name)
