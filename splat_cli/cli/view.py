"""`splat view`."""

from pathlib import Path

import click

from splat_cli.cli.display import Output
from splat_cli.cli.options import PATH, device_option, server_options, spz_axes_of, spz_axes_option


@click.command(epilog="\b\nExample:\n  splat view runs/garden\n  splat view garden.spz --port 9000")
@click.argument("source", type=PATH, metavar="RUN_OR_FILE")
@server_options
@spz_axes_option
@device_option
def command(source: Path, host: str, port: int, spz_axes: str | None, device: str) -> Output:
    """Show the splats of a run or a file in a browser.

    Navigate, compare renders with photographs, crop, and save views for `splat render --cameras`. Needs the extra
    `viewer` (pip install 'splat-cli[viewer]'). Accepts connections from this computer only, unless --host is given.
    """
    from splat_cli.device import open_backend
    from splat_cli.terminal.console import Display
    from splat_cli.viewer.window import browse

    axes = spz_axes_of(spz_axes, source)
    found = browse(source, open_backend(device), host, port, Display(), axes)
    return Output([f"Saved views: {found}"] if found else [], {"views": found})
