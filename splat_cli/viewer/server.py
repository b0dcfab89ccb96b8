"""The server that browsers talk to: viser, an optional package."""

from __future__ import annotations

import io
import ipaddress
import socket
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

from splat_cli.console import Display
from splat_cli.errors import UsageError

if TYPE_CHECKING:
    from viser import ViserServer


def require_viser() -> None:
    """UsageError where it is not installed."""
    try:
        import viser  # noqa: F401
    except ImportError:
        raise UsageError("the viewer needs viser: pip install 'splat-cli[viewer]'") from None


@contextmanager
def serving(host: str, port: int, display: Display) -> Iterator[ViserServer]:
    """Serves in threads of its own, at `port` or the next one that is free, and says where. UsageError."""
    require_viser()
    import viser

    try:
        _check_host(host)
        with redirect_stdout(io.StringIO()):  # its banner would stand among our results
            server = viser.ViserServer(host=host, port=port, label="splat", verbose=False)
    except OSError as error:
        raise UsageError(f"no viewer at {host}:{port}: {error.strerror or error}; choose --host and --port") from None
    server.gui.configure_theme(dark_mode=True, show_logo=False, show_share_button=False, control_width="large")
    display.say(f"Viewer: http://{'localhost' if host in ('0.0.0.0', '::') else host}:{server.get_port()}")
    if not _is_loopback(host):
        display.warn(f"everyone who reaches {host} can see this viewer and use its buttons")
    try:
        yield server
    finally:
        with redirect_stdout(io.StringIO()):
            server.stop()


def _check_host(host: str) -> None:
    """OSError where nothing can listen at `host`: viser binds in a thread, and would wait for ever."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.bind(address)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
