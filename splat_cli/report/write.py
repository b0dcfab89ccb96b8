"""Writing of report.html."""

from pathlib import Path

from splat_cli.device import Backend
from splat_cli.errors import SplatError, one_line
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.ply import read_ply
from splat_cli.io.files import replacing
from splat_cli.report.page import page, refuse_other_file
from splat_cli.report.run_data import RunData, read_run_data
from splat_cli.report.views import ComparedView, compare_views
from splat_cli.run.storage.load_splats import load_model
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.terminal.console import Display


def write_report(
    run: RunDir, backend: Backend, display: Display, scene: Path | None = None, path: Path | None = None
) -> Path:
    """Write the report of the run to `path`, by default RUN/report.html; returns the path.

    UsageError if `path` is a file of another kind. scene: folder of the photographs, SceneError if it lacks them; by
    default the folder used in training, and then the report has no comparisons if they are missing. Also works for
    runs that were interrupted before they saved splats.
    """
    if path is not None:
        refuse_other_file(path)
    data = read_run_data(run)
    steps = run.saved_steps()
    splats = read_ply(run.ply_path(steps[-1])) if steps else None
    views = _compared(data, splats, backend, scene, display) if splats else []
    path = path or run.report_path
    with replacing(path) as temporary:
        temporary.write_text(page(data, splats, views), encoding="utf-8", errors="backslashreplace")
    return path


def try_report(run: RunDir, backend: Backend, display: Display) -> Path | None:
    """Write the report at the end of training, if enabled; failures are warnings."""
    try:
        config = run.config()
        if not config.report:
            return None
        return write_report(run, backend, display)
    except Exception as error:
        display.warn(f"no report was written ({one_line(error)}); `splat report {run.path}` tries again")
        return None


def _compared(
    data: RunData, splats: SplatArrays, backend: Backend, scene: Path | None, display: Display
) -> list[ComparedView]:
    try:
        trained = load_model(data.run.ply_path(data.run.saved_steps()[-1]), backend, splats)
        return compare_views(data, *trained, backend, scene, display)
    except SplatError as error:
        if scene is not None:  # explicitly given, so pictures are expected
            raise
        display.warn(f"the report has no pictures: {error}")
        return []
