"""`splat train`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from splat_cli.cli.display import display_options
from splat_cli.cli.options import PATH, SettingsCommand, device_option, given, server_options, setting_options
from splat_cli.cli.output import Output

if TYPE_CHECKING:
    from splat_cli.config import TrainConfig
    from splat_cli.train.checkpoint_file import Checkpoint
    from splat_cli.train.observer import Observer
    from splat_cli.train.progress import Display
    from splat_cli.train.result import RunResult
    from splat_cli.train.run_folder import RunFolder


@click.command(
    cls=SettingsCommand,
    epilog="\b\nExample:\n  splat train photos/garden --eval --steps 7000 -o runs/first\n"
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
@click.option("--resume", type=PATH, metavar="RUN", help="Go on with this run, from its newest checkpoint.")
@click.option(
    "--preset", metavar="PRESET", help="A preset's name (fast, quality, ...) or a .toml file; options override it."
)
@device_option
@click.option("--viewer", is_flag=True, help="Show training in a browser (needs the extra `viewer`), until Ctrl-C.")
@server_options
@display_options
@setting_options()
def command(
    scene: Path | None,
    out: Path | None,
    resume: Path | None,
    preset: str | None,
    device: str,
    viewer: bool,
    host: str,
    port: int,
    display: "Display",
    **options: Any,
) -> Output:
    """Train splats on the photographs of SCENE.

    SCENE is a folder with a COLMAP model (in sparse/0, sparse or colmap/sparse/0) and its photographs (in images), or
    with transforms.json or transforms_train.json.
    With --resume, SCENE is only needed where the run's scene has moved, and options change the run's settings.
    """
    from splat_cli.errors import UsageError
    from splat_cli.viewer.training import attended

    if resume and (out or preset):
        raise UsageError("--resume keeps the run's folder and settings: leave out --out and --preset")
    for name in () if viewer else ("host", "port"):
        if click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE:
            display.warn(f"--{name} does nothing without --viewer")
    with attended(viewer, host, port, display) as observer:
        if resume:
            result = _resumed(resume, scene, device, given(options), display, observer)
        elif scene:
            result = _new(scene, out, preset, device, given(options), display, observer)
        else:
            raise UsageError("name a SCENE to train on, or a run with --resume")
    lines = [f"{result.num_splats:,} splats after {result.steps} steps in {result.seconds:.1f} s"]
    if result.score is not None:
        lines.append(f"Held-out photographs: PSNR {result.score.psnr:.2f}, SSIM {result.score.ssim:.4f}")
    lines += [f"Run: {result.run.path}", f"Splats: {result.run.ply_path(result.steps)}"]
    lines += [f"Report: {result.run.report_path}"] if result.run.report_path.is_file() else []
    return Output(lines, result.facts())


def _new(
    scene: Path,
    out: Path | None,
    preset: str | None,
    device: str,
    changes: dict[str, Any],
    display: "Display",
    observer: "Observer | None",
) -> "RunResult":
    from splat_cli.cli.idle import idle_options
    from splat_cli.presets import load_config
    from splat_cli.train.claim import new_run_folder, unused_folder

    config = load_config(preset, changes)
    for line in idle_options(config, changes):
        display.warn(line)
    with new_run_folder(out or unused_folder(Path("runs") / scene.resolve().name)) as run:
        return _train(scene, run, config, device, display, observer)


def _resumed(
    path: Path,
    scene: Path | None,
    device: str,
    changes: dict[str, Any],
    display: "Display",
    observer: "Observer | None",
) -> "RunResult":
    from splat_cli.train.claim import existing_run
    from splat_cli.train.resume import plan_resumption

    with existing_run(path) as run:
        plan = plan_resumption(run, scene, changes, display)
        return _train(plan.scene, run, plan.config, device, display, observer, plan.checkpoint)


def _train(
    scene: Path,
    run: "RunFolder",
    config: "TrainConfig",
    device: str,
    display: "Display",
    observer: "Observer | None",
    checkpoint: "Checkpoint | None" = None,
) -> "RunResult":
    from splat_cli.report import try_report
    from splat_cli.train.session import open_device, train_scene

    backend = open_device(device, config, display)
    result = train_scene(scene, run, config, backend, display, checkpoint, observer)
    try_report(run, backend, display)
    return result
