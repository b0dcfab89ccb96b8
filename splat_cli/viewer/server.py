"""Server of the viewer: the optional package viser."""

from __future__ import annotations

import io
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

from splat_cli.errors import UsageError
from splat_cli.terminal.console import Display
from splat_cli.viewer.request_guard import guarded_websockets, is_loopback, new_token, own_names, require_guard

if TYPE_CHECKING:
    from viser import ViserServer


logging.getLogger("websockets").addHandler(logging.NullHandler())  # invalid requests would print tracebacks


def require_viser() -> None:
    """UsageError if viser is not installed."""
    try:
        import viser  # noqa: F401
    except ImportError:
        raise UsageError("the viewer needs viser: pip install 'splat-cli[viewer]'") from None


@contextmanager
def serving(host: str, port: int, display: Display) -> Iterator[ViserServer]:
    """A server at `port` or the next free one, in separate threads; prints its address. UsageError.

    Refuses requests of other origins (request_guard.py).
    """
    token = None if is_loopback(host) else new_token()
    server = _open(host, port, token)
    try:
        require_guard(host, server.get_port())
        server.gui.configure_theme(dark_mode=True, show_logo=False, show_share_button=False, control_width="large")
        display.say(f"Viewer: {_address(host, server.get_port(), token)}")
        if token:
            display.warn("anyone who knows this address can use the viewer; the connection is not encrypted")
        yield server
    finally:
        with redirect_stdout(io.StringIO()):
            server.stop()


def _address(host: str, port: int, token: str | None) -> str:
    """Address to open in a browser, with the machine's name if the server listens at all its addresses."""
    name = socket.gethostname() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}" + (f"/?token={token}" if token else "")


def _open(host: str, port: int, token: str | None) -> ViserServer:
    require_viser()
    import viser

    try:
        _check_host(host)
        with redirect_stdout(io.StringIO()), guarded_websockets(own_names(host), token):  # viser prints a banner
            return viser.ViserServer(host=host, port=port, label="splat", verbose=False)
    except OSError as error:
        raise UsageError(f"no viewer at {host}:{port}: {error.strerror or error}; choose --host and --port") from None


def _check_host(host: str) -> None:
    """OSError if no server can listen on `host`: viser binds in a thread and would wait indefinitely."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.bind(address)
