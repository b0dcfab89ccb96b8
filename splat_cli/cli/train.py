"""`splat train`."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from splat_cli.cli.display import Output, display_options
from splat_cli.cli.options import (
    PATH,
    SettingsCommand,
    cluster_option,
    device_option,
    given,
    server_options,
    setting_options,
    warn_of_idle,
)
from splat_cli.terminal.phase_timer import PhaseTimer

if TYPE_CHECKING:
    from splat_cli.run.storage.result import RunSummary
    from splat_cli.terminal.console import Display


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

    SCENE is a folder or zip file of photographs with camera poses: a COLMAP model, transforms.json, or an export of
    Metashape, RealityScan, Polycam, ... (docs/datasets.md). It can also be photographs without poses or a video:
    `splat sfm` then estimates the poses first.

    A COLMAP model is expected in sparse/0, sparse or colmap/sparse/0, its photographs in images. Estimated poses are
    written to scenes/NAME; if this is interrupted, the same command continues it, and the training, too.

    Runs on other scenes continue only with --resume: the same command starts a new run. With --resume, SCENE is only
    needed if the scene has moved, and options change the settings of the run.

    With --cluster, the --gpus processes run on workers of a Dask cluster, each with its own GPU.
    """
    timer = PhaseTimer("starting")
    from splat_cli.cli.train_request import TrainRequest
    from splat_cli.report import try_report, write_report
    from splat_cli.run.device import open_device
    from splat_cli.run.storage.result import read_result
    from splat_cli.run.train_scene import train_scene
    from splat_cli.viewer.live import training_viewer

    if not viewer:
        warn_of_idle(display, "without --viewer", "host", "port")
    request = TrainRequest(scene, out, resume, preset, given(options))
    if cluster is not None:
        return _output(request.train_on_cluster(cluster, device, viewer, display))
    with (
        training_viewer(viewer, host, port, display) as callback,
        request.run(display, timer, callback.show_placed if callback else None) as (run, start),
    ):
        if start is None:
            result = read_result(run)
            write_report(run, open_device(device, run.config(), display), display)
        else:
            backend = open_device(device, start.config, display)
            result = train_scene(start.scene, run, start.config, backend, display, start.checkpoint, callback, timer)
            try_report(run, backend, display)
    return _output(result)


def _output(result: "RunSummary") -> Output:
    lines = [f"{result.num_splats:,} splats after {result.steps} steps in {result.seconds:.1f} s", *result.lines()]
    if result.run.report_path.is_file():
        lines.append(f"Report: {result.run.report_path} (open it in a browser)")
    return Output([*lines, *_next_commands(result.run.path)], result.to_dict())


def _next_commands(run: Path) -> list[str]:
    """Lines with the commands that people use after a training."""
    folder, page = shlex.quote(str(run)), shlex.quote(f"{run.resolve().name}.html")
    return [
        f"View it:    splat view {folder}",
        f"Render it:  splat render {folder} --path",
        f"Export it:  splat export {folder} {page}",
    ]
