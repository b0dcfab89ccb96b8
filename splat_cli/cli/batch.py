"""`splat batch`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from splat_cli.cli.display import Output, display_options
from splat_cli.cli.options import PATH, SettingsCommand, cluster_option, device_option, given, setting_options

if TYPE_CHECKING:
    from splat_cli.terminal.console import Display


@click.command(
    cls=SettingsCommand,
    epilog="\b\nExample:\n  splat batch photos/* -o runs --eval --steps 7000\n  splat batch scenes.toml -o runs",
)
@click.argument("scenes", type=PATH, nargs=-1, required=True)
@click.option(
    "-o", "--out", type=PATH, metavar="DIR", default=Path("runs"), show_default=True, help="Folder of the runs."
)
@click.option("--preset", metavar="PRESET", help="Name of a preset or a .toml file, for all scenes.")
@cluster_option
@device_option
@display_options
@setting_options()
def command(
    scenes: tuple[Path, ...],
    out: Path,
    preset: str | None,
    cluster: str | None,
    device: str,
    display: "Display",
    **options: Any,
) -> Output:
    """Train many scenes, one per GPU at a time.

    SCENES are folders, or .toml files with a table [[scene]] per scene: its path (relative to the file) and settings;
    settings above the tables apply to all scenes of the file. Each scene is trained in its own process. Runs are
    written to OUT/SCENE. Repeating the command skips finished runs and resumes the others.
    """
    from splat_cli.commands.batch import plan_batch, run_batch, summary

    results = run_batch(plan_batch(scenes, out, preset, given(options)), out, device, display, cluster)
    failed = sum(result.status == "failed" for result in results)
    width = max(len(result.name) for result in results)
    lines = [f"{'scene':<{width}}  status    PSNR    SSIM      splats   seconds"]
    lines += [result.line(width) for result in results]
    if failed:
        lines.append(f"{failed} of {len(results)} scenes failed: see {out}/NAME.log; the same command tries them again")
    return Output(lines, {"scenes": list(map(summary, results)), "failed": failed}, int(failed > 0))
