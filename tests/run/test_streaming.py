"""While photographs are streamed, the device always has steps queued, and many photographs are decoded at once."""

import threading
import time

import numpy as np
import pytest

from splat_cli.data import image_streamer
from splat_cli.data.image_streamer import ImageBudget, ImageStreamer
from splat_cli.device.cpu import CpuBackend
from splat_cli.device.uploads import CpuUploads
from splat_cli.render.camera import CameraTable
from splat_cli.train.schedule import view_order
from tests.views import ring_of_views

STEPS, VIEWS, WORKERS = 100, 60, 12
STEP_SECONDS, DECODE_SECONDS = 0.004, 0.024


class SlowDevice(CpuUploads):
    """A step keeps it busy for a while, beside the host. Knows how long it had nothing to do, and who waited for it."""

    def __init__(self):
        self.queued, self.idle, self.behind = 0, 0.0, []
        self._free = time.perf_counter()

    def launch(self):
        now = time.perf_counter()
        self.idle += max(0.0, now - self._free)
        self._free = max(now, self._free) + STEP_SECONDS
        self.queued += 1

    def mark(self):
        queued, until = self.queued, self._free

        def wait():
            self.behind.append(self.queued - queued)  # what it still has to do once this is over
            time.sleep(max(0.0, until - time.perf_counter()))

        return wait


class Pictures:
    """Decoding takes a while, and that of the view `late` until `go_on` is set."""

    def __init__(self):
        self.late, self.go_on = None, threading.Event()

    def __len__(self):
        return VIEWS

    def __getitem__(self, index):
        time.sleep(DECODE_SECONDS)
        if index == self.late:
            self.go_on.wait(timeout=5)
        return np.zeros((30, 40, 3), np.uint8)


@pytest.fixture
def device():
    return SlowDevice()


@pytest.fixture
def pictures():
    return Pictures()


@pytest.fixture
def stream(device, pictures, monkeypatch):
    class Backend(CpuBackend):
        def uploads(self):
            return device

    monkeypatch.setattr(image_streamer, "_WORKERS", WORKERS)
    backend, order = Backend(threads=1), view_order(VIEWS, STEPS, 0)
    cameras = CameraTable(backend, ring_of_views(VIEWS))
    return ImageStreamer(backend, cameras, pictures, [None] * VIEWS, order, ImageBudget(12, WORKERS))


def test_device_is_busy_while_photographs_come(device, stream):
    step = 0
    while step < STEPS:
        stop = stream.ready(step)
        for _ in range(step, stop):
            device.launch()
        step = stop
    assert min(device.behind) > 0
    # one after the other they would take six times as long as the steps; twelve at once, half as long
    assert device.idle < 0.5 * STEPS * STEP_SECONDS


def test_what_is_late_does_not_hold_up_what_is_there(stream, pictures):
    pictures.late = stream.order[5]
    step = 0
    while step < 5:
        step = stream.ready(step)
    assert step == 5  # and not further, which would be after the late one
    pictures.go_on.set()
    assert stream.ready(5) > 5
