"""Implementation of `splat render`: a job's splats, views, appearance and output folder, and its rendering."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import Backend
from splat_cli.errors import UsageError
from splat_cli.field.coloring import FieldColoring
from splat_cli.field.file import FieldFile, read_field
from splat_cli.field.parameters import Parameters
from splat_cli.gaussians.arrays import dense_cells
from splat_cli.gaussians.editing.move import resized
from splat_cli.gaussians.formats import read_splats
from splat_cli.gaussians.ply import origin_of_file
from splat_cli.gaussians.splats import Splats
from splat_cli.render.images import background_color
from splat_cli.render.output.camera_rigs import CameraRig, Fisheye, Panorama, SingleCamera, StereoPair
from splat_cli.render.output.frame_files import FrameFiles, remove_frames_from
from splat_cli.render.output.render_sequence import RenderSettings, SequenceResult, render_sequence, samples_as_fine
from splat_cli.render.output.video import write_video
from splat_cli.render.rasterizer import Coloring
from splat_cli.run.storage.find_run import find_splats
from splat_cli.run.storage.load_run import field_path, warn_of_earlier_step
from splat_cli.scene.cameras_json import read_cameras
from splat_cli.scene.georeferenced import relative_point, relative_views
from splat_cli.scene.trajectories.camera_path import DEFAULT_FPS, CameraPath, up_of, with_size
from splat_cli.scene.trajectories.focus import focus_point, levelled, middle_of, overview
from splat_cli.scene.view import View, natural_order
from splat_cli.terminal.console import Display


def embeddings_along(saved: FieldFile, appearance: str | None, num_frames: int) -> np.ndarray:
    """Embedding of each frame, float32 [num_frames, size].

    appearance: name of a training photograph, "mean" (same as None), or A,B for linear interpolation over the frames.
    UsageError for other values.
    """
    names = [None] if appearance is None else [appearance] if appearance in saved.names else appearance.split(",")
    if len(names) > 2:
        raise UsageError(f"appearance {appearance}: expected one photograph's name, or two separated by a comma")
    first, last = saved.embedding(names[0]), saved.embedding(names[-1])
    share = np.linspace(0, 1, num_frames, dtype=np.float32)[:, None]
    return (1 - share) * first + share * last


def colorings(
    saved: FieldFile, backend: Backend, rows: int, appearance: str | None, num_frames: int
) -> Callable[[Sequence[int]], Coloring]:
    """Function from frame numbers of views to a Coloring of `rows` splats."""
    field, looks = saved.open(backend, rows), embeddings_along(saved, appearance, num_frames)
    return lambda frames: FieldColoring(field, Parameters(backend, looks[list(frames)]))


_CELL = 0.02
"""Size of the grid cells of obstacles, relative to the viewing distance of the cameras."""


@dataclass(frozen=True)
class RenderJob:
    """Render the splats in `file` from `views`; folder: default output folder.

    antialias: None: as the file states; off if it does not, as in other viewers.
    trained: training views, if known.
    splat_scale: factor on the sizes of the splats; positions do not change.
    samples: per pixel and axis; None: as many as antialiased pictures need for the resolution of the training views.
    is_path: whether the views are frames of a path; files of an earlier, longer path are then removed.
    spz_axes: see read_splats.
    """

    file: Path
    views: list[View]
    background: tuple[float, float, float]
    antialias: bool | None
    folder: Path
    field_file: Path | None = None
    """Colour field of `file`, with its own splats, if the run has one."""
    appearance: str | None = None
    """See `embeddings_along`."""
    rig: CameraRig = field(default_factory=SingleCamera)
    files: FrameFiles = field(default_factory=FrameFiles)
    frames_per_second: float = DEFAULT_FPS
    trained: list[View] = field(default_factory=list)
    splat_scale: float = 1.0
    samples: int | None = None
    is_path: bool = False
    spz_axes: str = "RUB"

    def with_overrides(self, background: tuple[float, float, float] | None, antialias: bool | None) -> RenderJob:
        """The job with the given background and antialiasing, by default those of training."""
        return dataclasses.replace(
            self,
            background=self.background if background is None else background,
            antialias=self.antialias if antialias is None else antialias,
        )

    def with_appearance(self, appearance: str | None) -> RenderJob:
        """The job with a photograph's appearance, or a transition between two (see `embeddings_along`). UsageError."""
        if appearance is not None and self.field_file is None:
            raise UsageError(f"--appearance {appearance}: only runs with --color field have appearances; name a run")
        return dataclasses.replace(self, appearance=appearance)

    def with_size(self, width: int, height: int) -> RenderJob:
        """The views resized, in pixels."""
        return dataclasses.replace(self, views=[with_size(view, width, height) for view in self.views])

    def as_panorama(self, width: int, up: tuple[float, float, float] | None) -> RenderJob:
        """Panoramas of `width` x `width` / 2 pixels at each view, with a level horizon."""
        upwards = up_of(self.views, up)
        views = [levelled(view, upwards) for view in self.views]
        return dataclasses.replace(self, views=views, rig=Panorama(width))

    def as_fisheye(self, width: int) -> RenderJob:
        """Circles of 180 degrees in squares of `width` pixels."""
        return dataclasses.replace(self, rig=Fisheye(width))

    def as_stereo(self, baseline: float) -> RenderJob:
        """Stereo pairs, `baseline` world units apart, side by side."""
        return dataclasses.replace(self, rig=StereoPair(baseline))

    def render(self, backend: Backend, folder: Path | None, display: Display) -> SequenceResult:
        """Write the frames; keeps frames of an earlier call with the same file, views and settings."""
        warn_of_earlier_step(self.file, display)
        saved = read_field(self.field_file) if self.field_file else None
        arrays = saved.splats if saved else read_splats(self.file, self.spz_axes)
        for note in arrays.reading_notes(self.file):
            display.warn(note)
        antialias = arrays.antialiased if self.antialias is None else self.antialias
        samples = self._samples(antialias)
        settings = RenderSettings(self.background, antialias, self.rig, samples, self.files, novel_views=self.is_path)
        with (self.field_file or self.file).open("rb") as file:
            source = hashlib.file_digest(file, "sha256").hexdigest()
        if self.splat_scale != 1:
            arrays = resized(arrays, self.splat_scale)
            source = f"{source} {self.splat_scale}"
        if self.spz_axes != "RUB":
            source = f"{source} {self.spz_axes}"
        splats, coloring = Splats.from_arrays(backend, arrays), None
        if saved:
            coloring = colorings(saved, backend, splats.capacity, self.appearance, len(self.views))
            source = f"{source} {self.appearance} {len(self.views)}"
        with display.counting("pictures", len(self.views)) as count:
            folder = folder or self.folder
            written = render_sequence(backend, splats, self.views, folder, settings, source, count, coloring)
        if self.is_path and (left := remove_frames_from(folder, len(self.views))):
            display.say(f"removed {left} frames of an earlier, longer path from {folder}")
        return written

    def _samples(self, antialias: bool) -> int:
        """Samples per pixel and axis."""
        cameras = [camera for view in self.views[:1] for camera in self.rig.views(view)]
        return self.samples or (samples_as_fine(cameras, self.trained) if antialias else 1)

    def write_video(self, path: Path, written: SequenceResult, display: Display) -> None:
        """Encode the pictures as a video."""
        with display.counting("video", len(written.pictures)) as count:
            write_video(path, written.pictures, self.frames_per_second, count)


def plan_job(
    source: Path,
    which: str | None = None,
    cameras: Path | None = None,
    path: CameraPath | None = None,
    spz_axes: str = "RUB",
) -> RenderJob:
    """A job for a run or a file of splats.

    The views come from the run ("test", "train", "all"), a JSON file, or a path through or around them.
    """
    file, run = find_splats(source)
    if run is None and cameras is None and path is None:
        raise UsageError(f"{source} has no views: give some with --cameras FILE.json, or use --path orbit")
    config = run.config() if run else TrainConfig()
    which = which or ("test" if config.eval and path is None else "all")
    views, name, fps = run.views(which) if run else [], which, DEFAULT_FPS
    origin = run.origin() if run else np.array(origin_of_file(file))
    if cameras is not None:
        views, name = read_cameras(cameras, origin), cameras.stem
    if path is not None:
        if cameras is None:  # frames 1, 2, 10 as they were taken; views are sorted 1, 10, 2
            views = sorted(views, key=lambda view: natural_order(view.name))
        pinholes = [view.pinhole for view in views]
        focus = path.focus and relative_point(path.focus, origin)
        frames, fps = _frames(dataclasses.replace(path, focus=focus, origin=origin), pinholes, file, spz_axes)
        views, name = relative_views(frames, origin), path.name
    root = run.path / "renders" if run else Path("renders")
    return RenderJob(
        file,
        views,
        run.background() if run else background_color(config.background),
        antialias=config.antialias if run else None,
        folder=root / name,
        field_file=field_path(source),
        frames_per_second=fps,
        trained=run.views("train") if run else [],
        is_path=path is not None,
        spz_axes=spz_axes,
    )


def _frames(path: CameraPath, views: list[View], file: Path, spz_axes: str) -> tuple[list[View], float]:
    """Frames of a path and frames per second; without views, an orbit around the centre of the splats in `file`."""
    if path.is_file:
        return path.through(views)
    splats = read_splats(file, spz_axes)
    if not views:
        if path.kind not in ("auto", "orbit", "arc"):
            raise UsageError(f"{file} has no cameras for --path {path.kind}: use orbit, or give --cameras FILE.json")
        views = [overview(splats.means)]
        middle = tuple(middle_of(splats.means).tolist()) if len(splats) else (0.0, 0.0, 0.0)
        path = dataclasses.replace(path, kind="orbit", focus=path.focus or middle, arc=path.arc or 360.0)
    distances = [np.linalg.norm(view.center - focus_point(views)) for view in views]
    cell = _CELL * max(float(np.median(distances)), 1e-6)
    return path.through(views, dense_cells(splats, cell))
