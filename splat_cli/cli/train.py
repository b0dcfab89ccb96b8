"""`splat train`."""

import dataclasses
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from splat_cli.cli.display import display_options
from splat_cli.cli.options import (
    PATH,
    SettingsCommand,
    cluster_option,
    device_option,
    given,
    server_options,
    setting_options,
)
from splat_cli.cli.output import Output
from splat_cli.phase_timer import PhaseTimer

if TYPE_CHECKING:
    from splat_cli.console import Display
    from splat_cli.run.resume import Resumption
    from splat_cli.run.storage.result import RunResult
    from splat_cli.run.storage.run_dir import RunDir

    _Run = tuple[RunDir, Resumption | None]


@click.command(
    cls=SettingsCommand,
    epilog="\b\nExample:\n  splat train walk.mp4\n  splat train scenes/garden --eval --steps 7000 -o runs/first\n"
    "  splat train --resume runs/first --steps 10000",
)
@click.argument("scene", type=PATH, required=False)
@click.option(
    "-o",
    "--out",
    type=PATH,
    metavar="DIR",
    help="Folder of the run, new or empty.  [default: runs/SCENE, runs/SCENE-2, ...]",
)
@click.option("--resume", type=PATH, metavar="RUN", help="Continue this run from its newest checkpoint.")
@click.option(
    "--preset", metavar="PRESET", help="Name of a preset (quality, compact, ...) or a .toml file; options override it."
)
@cluster_option
@device_option
@click.option("--viewer", is_flag=True, help="Show training in a browser until Ctrl-C; needs the extra `viewer`.")
@server_options
@display_options
@setting_options()
def command(
    scene: Path | None,
    out: Path | None,
    resume: Path | None,
    preset: str | None,
    cluster: str | None,
    device: str,
    viewer: bool,
    host: str,
    port: int,
    display: "Display",
    **options: Any,
) -> Output:
    """Train splats on the photographs of SCENE.

    SCENE is a folder with a COLMAP model (in sparse/0, sparse or colmap/sparse/0) and its photographs (in images), with
    transforms.json, or an export of Metashape, RealityScan, Polycam, ... (docs/formats.md); or a zip file of one. Of
    photographs without camera poses, or a video, it makes a scene in scenes/NAME first, as `splat sfm` does. After an
    interruption, the same command continues then.
    With --resume, SCENE is only needed if the scene has moved, and options change the settings of the run. With
    --cluster, the --gpus processes run on workers of a Dask cluster, each with a GPU of its own.
    """
    timer = PhaseTimer("starting")
    from splat_cli.report import try_report, write_report
    from splat_cli.run.device import open_device
    from splat_cli.run.storage.result import read_result
    from splat_cli.run.train_scene import train_scene
    from splat_cli.viewer.live import training_viewer

    for name in () if viewer else ("host", "port"):
        if click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE:
            display.warn(f"--{name} does nothing without --viewer")
    if cluster is not None:
        return _output(_train_on_cluster(scene, out, resume, preset, given(options), cluster, device, viewer, display))
    opened = _run_to_train(scene, out, resume, preset, given(options), display, timer)
    with training_viewer(viewer, host, port, display) as callback, opened as (run, start):
        if start is None:
            result = read_result(run)
            write_report(run, open_device(device, run.config(), display), display)
        else:
            backend = open_device(device, start.config, display)
            result = train_scene(start.scene, run, start.config, backend, display, start.checkpoint, callback, timer)
            try_report(run, backend, display)
    return _output(result)


def _output(result: "RunResult") -> Output:
    lines = [f"{result.num_splats:,} splats after {result.steps} steps in {result.seconds:.1f} s", *result.lines()]
    if result.run.report_path.is_file():
        lines.append(f"Report: {result.run.report_path} (open it in a browser)")
    return Output(lines, result.to_dict())


def _train_on_cluster(
    scene: Path | None, out: Path | None, resume: Path | None, preset: str | None, changes: dict[str, Any],
    cluster: str, device: str, viewer: bool, display: "Display",
) -> "RunResult":  # fmt: skip
    """A new or resumed run on the workers of a Dask cluster, which lock its folder. UsageError."""
    from splat_cli.config.presets import load_config
    from splat_cli.errors import UsageError
    from splat_cli.tools.cluster_training import new_run_on_cluster, resumed_run_on_cluster

    if viewer:
        raise UsageError("--viewer does not work with --cluster: leave out one of them")
    _check_places(scene, out, resume, preset)
    if resume:
        return resumed_run_on_cluster(resume, scene, changes, cluster, device, display)
    assert scene is not None
    return new_run_on_cluster(scene, _new_folder(scene, out), load_config(preset, changes), cluster, device, display)


@contextmanager
def _run_to_train(
    scene: Path | None, out: Path | None, resume: Path | None, preset: str | None, changes: dict[str, Any],
    display: "Display", timer: PhaseTimer,
) -> "Iterator[_Run]":  # fmt: skip
    """The locked folder of a new or resumed run, and its settings: None if only the report is missing. UsageError."""
    _check_places(scene, out, resume, preset)
    if resume:
        yield from _resumed_run(resume, scene, changes, display)
    elif scene:
        yield from _new_run(scene, out, preset, changes, display, timer)


def _default_folder(scene: Path) -> Path:
    """runs/NAME, the folder of the first run on a scene without --out; later ones are numbered."""
    path = scene.resolve()
    return Path("runs") / (path.stem if path.is_file() else path.name)


def _new_folder(scene: Path, out: Path | None) -> Path:
    """The folder of a new run: `out`, or the first unused one of runs/NAME, runs/NAME-2, ..."""
    from splat_cli.run.storage.run_lock import unused_folder

    return out or unused_folder(_default_folder(scene))


def _check_places(scene: Path | None, out: Path | None, resume: Path | None, preset: str | None) -> None:
    from splat_cli.errors import UsageError

    if resume and (out or preset):
        raise UsageError("--resume keeps the run's folder and settings: leave out --out and --preset")
    if not (resume or scene):
        raise UsageError("name a SCENE to train on, or a run with --resume")


def _resumed_run(path: Path, scene: Path | None, changes: dict[str, Any], display: "Display") -> "Iterator[_Run]":
    from splat_cli.run.resume import FinishedError, plan_resumption
    from splat_cli.run.storage.run_lock import existing_run

    with existing_run(path) as run:
        start: Resumption | None = None
        try:
            start = plan_resumption(run, scene, changes, display)
        except FinishedError:
            if changes or run.report_path.is_file() or not run.config().report:
                raise
        yield run, start


def _new_run(
    scene: Path, out: Path | None, preset: str | None, changes: dict[str, Any], display: "Display", timer: PhaseTimer
) -> "Iterator[_Run]":
    """A new run; of photographs or a video, for which a scene is made first, the interrupted one if there is one."""
    from splat_cli.cli.unused_options import unused_options
    from splat_cli.config.presets import load_config
    from splat_cli.run.resume import Resumption, interrupted_run, plan_resumption
    from splat_cli.run.storage.run_lock import existing_run, new_run_folder, numbered_folders
    from splat_cli.scene.formats import scene_folder
    from splat_cli.tools.photo_scene import prepared_scene

    config = load_config(preset, changes)
    for line in unused_options(config, changes):
        display.warn(line)
    with timer("camera poses"):
        prepared = prepared_scene(scene, config.seed, display)
    is_made = prepared != scene
    scene, dataset_format = scene_folder(prepared, config.format)
    config = dataclasses.replace(config, format=dataset_format)
    if is_made:
        places = [out] if out else itertools.takewhile(Path.exists, numbered_folders(_default_folder(scene)))
        interrupted = interrupted_run(places, scene, config)
        if interrupted:
            display.say(f"Continuing {interrupted}, which was interrupted")
            with existing_run(interrupted) as run:
                yield run, plan_resumption(run, scene, {}, display)
            return
    with new_run_folder(_new_folder(scene, out)) as run:
        yield run, Resumption(scene, config, None)
