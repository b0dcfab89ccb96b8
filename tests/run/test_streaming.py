"""While photographs are streamed, the device always has steps queued, and many photographs are decoded at once."""

import threading

import numpy as np
import pytest

from splat_cli.data import image_streamer
from splat_cli.data.image_budget import ImageBudget
from splat_cli.data.image_streamer import ImageStreamer
from splat_cli.data.training_images import view_order
from splat_cli.device.cpu import CpuBackend, CpuUploads
from splat_cli.render.camera import CameraTable
from tests.subprocesses import HANG
from tests.views import ring_of_views

STEPS, VIEWS, WORKERS = 100, 60, 12
STEP_SECONDS, DECODE_SECONDS = 0.004, 0.024


class SimulatedDevice(CpuUploads):
    """now: simulated seconds; time passes while the host waits. A step takes STEP_SECONDS, in parallel to the host.

    Records its idle time (`idle`), and the number of queued steps at each wait of the host.
    """

    def __init__(self):
        self.now, self.idle, self.queued, self.behind = 0.0, 0.0, 0, []
        self._free = 0.0

    def launch(self):
        self.idle += max(0.0, self.now - self._free)
        self._free = max(self.now, self._free) + STEP_SECONDS
        self.queued += 1

    def mark(self):
        queued, until = self.queued, self._free

        def wait():
            self.behind.append(self.queued - queued)  # steps that remain after this one
            self.now = max(self.now, until)

        return wait


class SimulatedPool:
    """Stand-in for ThreadPoolExecutor: work takes DECODE_SECONDS of the device's clock."""

    def __init__(self, device, num_workers):
        self._device, self._free = device, [0.0] * num_workers

    def submit(self, work, *args):
        worker = int(np.argmin(self._free))
        self._free[worker] = max(self._device.now, self._free[worker]) + DECODE_SECONDS
        return SimulatedFuture(self._device, self._free[worker], work(*args))


class SimulatedFuture:
    """The result of work that ends at some time of the device's clock."""

    def __init__(self, device, end, result):
        self._device, self._end, self._result = device, end, result

    def done(self):
        return self._device.now >= self._end

    def result(self):
        self._device.now = max(self._device.now, self._end)
        return self._result

    def cancel(self):
        return False


class Pictures:
    """Decoding of the view `late` ends only when `go_on` is set."""

    def __init__(self):
        self.late, self.go_on = None, threading.Event()

    def __len__(self):
        return VIEWS

    def __getitem__(self, index):
        if index == self.late:
            self.go_on.wait(timeout=HANG)
        return np.zeros((30, 40, 3), np.uint8)


@pytest.fixture
def device():
    return SimulatedDevice()


@pytest.fixture
def pictures():
    pictures = Pictures()
    yield pictures
    pictures.go_on.set()


@pytest.fixture
def make_stream(device, pictures, monkeypatch):
    class Backend(CpuBackend):
        def uploads(self):
            return device

    def make_stream():
        backend, order = Backend(threads=1), view_order(VIEWS, STEPS, 0)
        cameras = CameraTable(backend, ring_of_views(VIEWS))
        return ImageStreamer(backend, cameras, pictures, [None] * VIEWS, order, ImageBudget(12, WORKERS))

    monkeypatch.setattr(image_streamer, "WORKERS", WORKERS)
    return make_stream


def test_device_is_busy_while_photographs_are_decoded(device, make_stream, monkeypatch):
    monkeypatch.setattr(image_streamer, "ThreadPoolExecutor", lambda num, **options: SimulatedPool(device, num))
    stream, step = make_stream(), 0
    while step < STEPS:
        stop = stream.ready(step)
        for _ in range(step, stop):
            device.launch()
        step = stop
    assert min(device.behind) > 0
    # one by one, six times as long as the steps; twelve at once, half as long: only the first step waits
    assert device.idle < 2 * DECODE_SECONDS


def test_a_late_photograph_does_not_delay_decoded_ones(make_stream, pictures):
    stream = make_stream()
    pictures.late = stream.order[5]
    step = 0
    while step < 5:
        step = stream.ready(step)
    assert step == 5  # the next photograph is the late one
    pictures.go_on.set()
    assert stream.ready(5) > 5
