"""`splat report`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from splat_cli.cli.display import display_options
from splat_cli.cli.options import PATH, device_option
from splat_cli.cli.output import Output

if TYPE_CHECKING:
    from splat_cli.console import Display


@click.command(epilog="\b\nExample:\n  splat report runs/garden\n  splat report runs/garden -o garden.html")
@click.argument("path", type=PATH, metavar="RUN")
@click.option("-o", "--out", type=PATH, metavar="FILE", help="The file to write.  [default: RUN/report.html]")
@click.option("--scene", type=PATH, metavar="DIR", help="Where the run's scene lies now.  [default: where it was]")
@device_option
@display_options
def command(path: Path, out: Path | None, scene: Path | None, device: str, display: "Display") -> Output:
    """Write the report of RUN: one HTML file for people.

    Renders beside their photographs, curves of training, distributions of the splats, the cameras, settings, warnings.
    `splat train` writes it at its end; this writes it again, or for a run that was interrupted.
    """
    from splat_cli.device import open_backend
    from splat_cli.report import write_report
    from splat_cli.run.storage.run_dir import open_run

    written = write_report(open_run(path), open_backend(device), display, scene, out)
    return Output([f"Report: {written}"], {"report": written})
