"""`splat report`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from splat_cli.cli.display import Output, display_options
from splat_cli.cli.options import PATH, device_option
from splat_cli.cli.param_types import FiniteRange

if TYPE_CHECKING:
    from splat_cli.terminal.console import Display


@click.command(epilog="\b\nExample:\n  splat report runs/garden\n  splat report runs/garden -o garden.html")
@click.argument("path", type=PATH, metavar="RUN")
@click.option("-o", "--out", type=PATH, metavar="FILE", help="File to write.  [default: RUN/report.html]")
@click.option(
    "--scene", type=PATH, metavar="DIR", help="Folder of the scene, if it has moved.  [default: as in training]"
)
@click.option(
    "--size",
    type=FiniteRange(0),
    metavar="MB",
    help="Maximum size with the scene in 3D; larger scenes are shown with fewer splats, with 0 none.  "
    "[default: --report-size of the run, 12]",
)
@device_option
@display_options
def command(
    path: Path, out: Path | None, scene: Path | None, size: float | None, device: str, display: "Display"
) -> Output:
    """Write the report of RUN: one HTML file.

    It shows the scene in 3D and says how good it is, where it fails and what to do next. Below are renders beside
    their photographs, scores, warnings, training curves, cameras and settings. `splat train` writes it at the end;
    this command writes it again, or for an interrupted run.
    """
    from splat_cli.device import open_backend
    from splat_cli.report import write_report
    from splat_cli.run.storage.find_run import open_run

    written = write_report(open_run(path), open_backend(device), display, scene, out, size)
    num_bytes = written.stat().st_size
    return Output([f"Report: {written}, {num_bytes / 1e6:.1f} MB"], {"report": written, "bytes": num_bytes})
