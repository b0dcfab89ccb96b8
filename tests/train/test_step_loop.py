"""Captured graphs: replayed, and captured again after buffers have been reallocated."""

import numpy as np
import pytest

from splat_cli.device import open_backend
from tests.noise_trainer import noise_trainer
from tests.training import SETTINGS


class Watched:
    """A trainer whose recordings hold the arrays they were made with, as those of a GPU do."""

    def __init__(self, monkeypatch, num_points=200):
        self.replays = 0
        backend = open_backend("cpu")
        monkeypatch.setattr(backend, "capture_graph", self._capture)
        self.trainer = noise_trainer(backend, num_points, **{**SETTINGS, "max_splats": 10 * num_points})

    def _arrays(self):
        raster = self.trainer.rasterizer
        return raster.projection, raster.tiles, raster.picture, self.trainer.splats.params

    def _capture(self, function):
        recorded = self._arrays()

        def replay():
            assert all(a is b for a, b in zip(recorded, self._arrays(), strict=True))
            self.replays += 1
            function()

        return replay


@pytest.fixture
def watched(monkeypatch):
    return Watched(monkeypatch)


def test_steps_are_replayed(watched):
    watched.trainer.run_until(4)
    assert watched.replays == 3


def test_room_for_pairs_has_training_and_density_control_record_anew(watched):
    watched.trainer.run_until(20)
    before = watched.replays
    watched.trainer.rasterizer.resize_pairs(16)
    watched.trainer.run_until(40)
    assert watched.trainer.step == 40
    assert watched.trainer.rasterizer.tiles.pair_capacity > 16
    assert watched.replays > before + 10


def test_growing_has_them_record_anew(monkeypatch):
    watched = Watched(monkeypatch, num_points=2000)
    capacity = watched.trainer.splats.capacity
    watched.trainer.run_until(50)
    assert watched.trainer.splats.capacity > capacity


def test_what_needs_trainings_memory_has_them_record_anew(watched):
    watched.trainer.run_until(20)
    tries = []

    def work():
        tries.append(None)
        if len(tries) == 1:
            raise MemoryError

    watched.trainer.run_with_memory_fallback(work)
    watched.trainer.run_until(40)
    assert len(tries) == 2
    assert watched.trainer.step == 40


@pytest.mark.parametrize(
    "settings",
    [
        {"pose_opt": True, "refine_intrinsics": True, "appearance": "exposure", "background": "learned"},
        {"color": "field"},
        {"appearance": "grid", "robust": True},
        {"appearance": "camera", "batch": 2},
        {"strategy": "mcmc"},
    ],
    ids=lambda settings: "-".join(settings),
)
def test_replayed_steps_are_those_of_the_function(monkeypatch, settings):
    """Nothing in a step is work of NumPy, which a recording on the CPU would leave out."""
    splats = []
    for replayed in (True, False):
        backend = open_backend("cpu", threads=1)
        if not replayed:
            monkeypatch.setattr(backend, "capture_graph", lambda function: function)
        trainer = noise_trainer(backend, 100, **{**SETTINGS, "steps": 24, **settings})
        trainer.run_until(24)
        splats.append(backend.download(trainer.splats.params))
    np.testing.assert_array_equal(*splats)
