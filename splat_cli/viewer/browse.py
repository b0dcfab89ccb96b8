"""Viewer of a finished run or a file."""

from contextlib import suppress
from pathlib import Path

from splat_cli.device import Backend
from splat_cli.terminal.console import Display
from splat_cli.viewer.server import require_viser, serving
from splat_cli.viewer.splat_source import open_source
from splat_cli.viewer.window import Window

_NUM_VIEWS = 64


def browse(path: Path, backend: Backend, host: str, port: int, display: Display, spz_axes: str = "RUB") -> Path | None:
    """Show a run or a file until Ctrl-C; returns the file of saved views, None if none was saved.

    spz_axes: see read_splats.
    """
    require_viser()
    source = open_source(path, backend, display, spz_axes)
    kept = (source.run.path if source.run else Path()) / "views.json"
    window = None
    with serving(host, port, display) as server, suppress(KeyboardInterrupt):
        window = Window(server, source, kept, _NUM_VIEWS)
        display.say("Press Ctrl-C to stop")
        serve_until_interrupt(window)
    return window.saved_views.file if window else None


def serve_until_interrupt(window: Window) -> None:
    """Process tasks of browsers until KeyboardInterrupt (Ctrl-C)."""
    while True:
        window.wait()
