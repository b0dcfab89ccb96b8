"""`splat compare`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from splat_cli.cli.display import Output, display_options
from splat_cli.cli.options import PATH, device_option, lpips_option, warn_of_idle

if TYPE_CHECKING:
    from splat_cli.commands.compare import ComparedRun
    from splat_cli.terminal.console import Display


@click.command(
    epilog="\b\nExample:\n  splat compare runs/garden runs/garden-2\n"
    "  splat compare runs/default runs/quality runs/mcmc -o presets.html"
)
@click.argument("runs", type=PATH, metavar="RUN RUN...", nargs=-1, required=True)
@click.option(
    "-o", "--out", type=PATH, metavar="FILE.html", default=Path("comparison.html"), show_default=True,
    help="Page to write.",
)  # fmt: skip
@click.option("--no-page", is_flag=True, help="Only print the table.")
@click.option(
    "--scene", type=PATH, metavar="DIR", help="Folder of the scene, if it has moved.  [default: as in training]"
)
@lpips_option
@device_option
@display_options
def command(
    runs: tuple[Path, ...],
    out: Path,
    no_page: bool,
    scene: Path | None,
    lpips: str | None,
    device: str,
    display: "Display",
) -> Output:
    """Compare runs on the same held-out photographs.

    Evaluates the last splats of each RUN, prints a table and writes a page on which a slider compares renders of two
    runs, or of a run and the photograph. The runs must have held out the same photographs at the same size.
    """
    from splat_cli.commands.compare import compare_runs
    from splat_cli.device import open_backend

    page = None if no_page else out
    if no_page:
        warn_of_idle(display, "with --no-page", "out")
    compared = compare_runs(runs, scene, open_backend(device), display, page, lpips)
    lines = [*_table(compared), *([f"Page: {page}"] if page else [])]
    return Output(lines, {"runs": [one.to_dict() for one in compared], "page": page})


def _table(compared: "list[ComparedRun]") -> list[str]:
    """One row per run: measures, number of photographs on which it is best, splats, seconds."""
    width = max(len("run"), *(len(one.name) for one in compared))
    with_flip = all(one.mean.flip is not None for one in compared)
    with_lpips = all(one.mean.lpips is not None for one in compared)
    measures = f"   PSNR    SSIM{'    FLIP' * with_flip}{'   LPIPS' * with_lpips}"
    lines = [f"{'run':<{width}}{measures}  best on      splats  seconds"]
    names = compared[0].scores
    best = [max(compared, key=lambda one: one.scores[name].psnr).name for name in names]
    for one in compared:
        looks = f"  {one.mean.flip:.4f}" if with_flip else ""
        looks += f"  {one.mean.lpips:.4f}" if with_lpips else ""
        seconds = "-" if one.seconds is None else f"{one.seconds:.1f}"
        row = f"{one.name:<{width}}  {one.mean.psnr:5.2f}  {one.mean.ssim:.4f}{looks}"
        lines.append(f"{row}  {best.count(one.name):>3} of {len(names):<3} {one.num_splats:>9,}  {seconds:>7}")
    return lines
