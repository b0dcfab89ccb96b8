"""Server of the viewer: the optional package viser, and conversion of its cameras. Both have z forward and y down."""

from __future__ import annotations

import io
import logging
import math
import socket
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

import numpy as np

from splat_cli.errors import UsageError
from splat_cli.scene.quaternion import matrix_from_quat, quat_from_matrix, world_to_camera
from splat_cli.scene.view import View
from splat_cli.terminal.console import Display
from splat_cli.viewer.request_guard import guarded_websockets, is_loopback, new_token, own_names, require_guard

if TYPE_CHECKING:
    from viser import CameraHandle, ClientHandle, ViserServer


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


def pose_of(view: View) -> tuple[np.ndarray, np.ndarray]:
    """(position [3], rotation wxyz [4]), camera to world."""
    return view.center, quat_from_matrix(view.w2c[:3, :3].T)


def field_of_view(view: View, aspect: float | None = None) -> float:
    """Vertical field of view, radians, that shows the whole view at this aspect ratio (default: its own)."""
    view = view.pinhole
    half = view.height / view.fy / 2
    if aspect is not None:
        half = max(half, view.width / view.fx / 2 / aspect)
    return 2 * math.atan(half)


def move_camera(client: ClientHandle, view: View, ahead: float) -> None:
    """Move the browser's camera to the view; the orbit centre is `ahead` world units in front of it."""
    position, rotation = pose_of(view)
    with client.atomic():
        client.camera.position = position
        client.camera.wxyz = rotation
        client.camera.look_at = position + ahead * view.w2c[2, :3]
        client.camera.fov = field_of_view(view, client.camera.aspect)


def set_start(server: ViserServer, view: View, ahead: float) -> None:
    """Let browsers that connect later, or reset their view, start at the view; `ahead`: see `move_camera`."""
    camera = server.initial_camera
    camera.position = view.center
    camera.look_at = view.center + ahead * view.w2c[2, :3]
    camera.fov = field_of_view(view)


def view_from(camera: CameraHandle, name: str) -> View:
    """The browser's camera as a view with even width and height."""
    width, height = (max(2, side - side % 2) for side in (camera.image_width, camera.image_height))
    focal = height / 2 / math.tan(camera.fov / 2)
    w2c = world_to_camera(matrix_from_quat(camera.wxyz).T, np.asarray(camera.position, np.float64))
    return View(name, None, width, height, focal, focal, width / 2, height / 2, w2c)
