"""`splat info`."""

from pathlib import Path

import click

from splat_cli.cli.display import Output
from splat_cli.cli.options import PATH, spz_axes_of, spz_axes_option


@click.command(
    epilog="\b\nExample:\n  splat info scenes/garden\n  splat info runs/garden\n  splat info runs\n"
    "  splat info garden.spz"
)
@click.argument("path", type=PATH)
@spz_axes_option
def command(path: Path, spz_axes: str | None) -> Output:
    """Summarise a scene, a run, a folder of runs or a file.

    Lists all runs below a folder of runs, with their relative paths.
    """
    from splat_cli.commands.info import describe_path

    rows = describe_path(path, spz_axes_of(spz_axes, path))
    width = max(map(len, rows))
    return Output([f"{label:<{width}}  {text}" for label, text in rows.items()], rows)
