"""Rotation of the live viewer's camera by a drag with the mouse."""

import io
import time

import numpy as np
import pytest

from splat_cli.scene.quaternion import matrix_from_quat
from splat_cli.terminal.console import Display
from tests.subprocesses import HANG

pytest.importorskip("viser", reason="the viewer needs viser (extra viewer)")
pytestmark = pytest.mark.browser
SIZE = {"width": 1000, "height": 720}


@pytest.fixture
def camera(chromium):
    """(page of the viewer, its camera on the server)."""
    from splat_cli.viewer.server import serving

    with serving("127.0.0.1", 8093, Display(io.StringIO())) as server:
        server.initial_camera.position = (3.0, 0.0, 0.0)
        server.initial_camera.look_at = (0.0, 0.0, 0.0)
        page = chromium.new_page(viewport=SIZE)
        page.goto(f"http://127.0.0.1:{server.get_port()}")
        clients = until(page, server.get_clients)
        handle = next(iter(clients.values())).camera
        until(page, lambda: forward(handle) @ [-1, 0, 0] > 0.999)  # at first, the browser has its own camera
        yield page, handle
        page.close()


def until(page, found):
    """The first true result of `found`; the page continues while waiting."""
    end = time.monotonic() + HANG
    while not (result := found()):
        if time.monotonic() > end:
            pytest.fail("it does not happen")
        page.wait_for_timeout(100)
    return result


def forward(camera):
    return matrix_from_quat(camera.wxyz)[:, 2]


def drag(page, camera, pixels, button="left"):
    """Angle in degrees between the viewing directions before and after a horizontal drag, when the camera rests."""
    before = forward(camera)
    page.mouse.move(300, 400)
    page.mouse.down(button=button)
    for step in range(20):
        page.mouse.move(300 + pixels * (step + 1) / 20, 400)
    page.mouse.up(button=button)
    seen = [before]

    def rests():  # the camera follows smoothly
        page.wait_for_timeout(400)
        seen.append(forward(camera))
        return np.abs(seen[-1] - before).max() > 1e-4 and np.ptp(seen[-4:], axis=0).max() < 1e-4

    until(page, rests)
    return np.degrees(np.arccos(np.clip(seen[-1] @ before, -1, 1)))


def test_a_drag_of_200_pixels_turns_by_40_degrees(camera):
    page, handle = camera
    assert drag(page, handle, 200) == pytest.approx(360 * 0.4 * 200 / SIZE["height"], abs=8)
    assert drag(page, handle, -200) == pytest.approx(360 * 0.4 * 200 / SIZE["height"], abs=8)
