"""`splat batch`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from splat_cli.cli.display import display_options
from splat_cli.cli.options import PATH, SettingsCommand, device_option, given, setting_options
from splat_cli.cli.output import Output

if TYPE_CHECKING:
    from splat_cli.console import Display


@click.command(
    cls=SettingsCommand,
    epilog="\b\nExample:\n  splat batch photos/* -o runs --eval --steps 7000\n  splat batch scenes.toml -o runs",
)
@click.argument("scenes", type=PATH, nargs=-1, required=True)
@click.option(
    "-o", "--out", type=PATH, metavar="DIR", default=Path("runs"), show_default=True, help="Folder of the runs."
)
@click.option("--preset", metavar="PRESET", help="A preset's name or a .toml file, for all scenes.")
@device_option
@display_options
@setting_options()
def command(
    scenes: tuple[Path, ...], out: Path, preset: str | None, device: str, display: "Display", **options: Any
) -> Output:
    """Train many scenes, one on each GPU at a time.

    Each runs in a process of its own. SCENES are folders, or .toml files that list some: a table [[scene]] each with
    its path and settings of its own; settings above the tables are for all of the file; paths are beside it. A scene's
    run lies in OUT under the scene's name. Called again, the command skips what is finished and resumes the rest.
    """
    from splat_cli.tools.batch import run_batch, summary
    from splat_cli.tools.batch_list import plan_batch

    jobs = plan_batch(scenes, out, preset, given(options))
    outcomes = run_batch(jobs, out, device, display)
    failed = sum(outcome.status == "failed" for outcome in outcomes)
    width = max(len(outcome.name) for outcome in outcomes)
    lines = [f"{'scene':<{width}}  status    PSNR    SSIM      splats   seconds"]
    lines += [outcome.line(width) for outcome in outcomes]
    return Output(lines, {"scenes": list(map(summary, outcomes)), "failed": failed}, int(failed > 0))
