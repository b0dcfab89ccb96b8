"""Writing of report.html."""

from collections.abc import Sequence
from pathlib import Path

from splat_cli.device import Backend
from splat_cli.errors import SplatError, one_line, quoted
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.ply import read_ply
from splat_cli.io.files import replacing
from splat_cli.report.page import SCENE, page, refuse_other_file
from splat_cli.report.run_data import ComparedView, RunData, compare_views, read_run_data
from splat_cli.report.scene_in_3d import scene_in_3d, stops_of
from splat_cli.run.storage.load_run import load_model, read_run_scene
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.scene.view import Scene
from splat_cli.terminal.console import Display


def write_report(
    run: RunDir,
    backend: Backend,
    display: Display,
    scene: Path | None = None,
    path: Path | None = None,
    max_megabytes: float | None = None,
) -> Path:
    """Write the report of the run to `path`, by default RUN/report.html; returns the path.

    UsageError if `path` is a file of another kind. scene: folder of the photographs, SceneError if it lacks them; by
    default the folder used in training, and then the report has no comparisons if they are missing. Also works for
    runs that were interrupted before they saved splats. max_megabytes: size of the page with the
    scene in 3D, by default --report-size of the run; without the scene in 3D if that is too little.
    """
    if path is not None:
        refuse_other_file(path)
    data = read_run_data(run)
    steps = run.saved_steps()
    splats = read_ply(run.ply_path(steps[-1])) if steps else None
    found = _read(run, scene) if splats else None
    views = _compared(data, splats, backend, found, display, is_needed=scene is not None) if splats else []
    most = 1e6 * (data.config.report_size if max_megabytes is None else max_megabytes)
    document = _with_scene(data, splats, views, backend, found, most) or page(data, splats, views)
    path = path or run.report_path
    with replacing(path) as temporary:
        temporary.write_text(document, encoding="utf-8", errors="backslashreplace")
    return path


def _with_scene(
    data: RunData,
    splats: SplatArrays | None,
    compared: Sequence[ComparedView],
    backend: Backend,
    scene: Path | Scene | None,
    most: float,
) -> str | None:
    """The page with the scene in 3D, at most `most` bytes; None if hardly any splats would fit."""
    if not splats or not most or not data.run.views("all"):
        return None
    stops = stops_of(data, compared, scene, backend)
    document = page(data, splats, compared, {stop.view.name: number for number, stop in enumerate(stops)})
    part = scene_in_3d(data, splats, stops, backend, most - len(document.encode(errors="backslashreplace")))
    return document.replace(SCENE, part, 1) if part else None


def try_report(run: RunDir, backend: Backend, display: Display) -> Path | None:
    """Write the report at the end of training, if enabled; failures are warnings."""
    try:
        config = run.config()
        if not config.report:
            return None
        return write_report(run, backend, display)
    except Exception as error:
        display.warn(f"no report was written ({one_line(error)}); `splat report {quoted(run.path)}` tries again")
        return None


def _read(run: RunDir, scene: Path | None) -> Path | Scene | None:
    """The scene, read once for all pictures of the page; `scene` if it cannot be read: its first use tells why."""
    try:
        return read_run_scene(run, scene)
    except SplatError:
        return scene


def _compared(
    data: RunData,
    splats: SplatArrays,
    backend: Backend,
    scene: Path | Scene | None,
    display: Display,
    is_needed: bool,
) -> list[ComparedView]:
    """The compared views. is_needed: whether missing photographs are an error; otherwise a warning."""
    try:
        trained = load_model(data.run.ply_path(data.run.saved_steps()[-1]), backend, splats)
        return compare_views(data, *trained, backend, scene, display)
    except SplatError as error:
        if is_needed:
            raise
        display.warn(f"the report has no pictures: {error}")
        return []
