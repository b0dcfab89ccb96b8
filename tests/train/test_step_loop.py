"""What is recorded and replayed: never anything with arrays that have moved."""

import numpy as np
import pytest

from splat_cli.device import open_backend
from splat_cli.presets import load_config
from splat_cli.train.recovery import beside
from splat_cli.train.trainer import Trainer
from tests.train.conftest import SETTINGS
from tests.views import ring_of_views


class Watched:
    """A trainer whose recordings hold the arrays they were made with, as those of a GPU do."""

    def __init__(self, monkeypatch, num_points=200):
        self.replays = 0
        backend = open_backend("cpu")
        monkeypatch.setattr(backend, "capture", self._capture)
        views, random = ring_of_views(4), np.random.default_rng(0)
        images = [random.integers(0, 255, (view.height, view.width, 3), dtype=np.uint8) for view in views]
        points = random.normal(0, 0.5, (num_points, 3)).astype(np.float32)
        colors = np.full((num_points, 3), 128, np.uint8)
        config = load_config(None, {**SETTINGS, "max_splats": 10 * num_points})
        self.trainer = Trainer(backend, views, images, points, colors, config)

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

    beside(watched.trainer, work)
    watched.trainer.run_until(40)
    assert len(tries) == 2
    assert watched.trainer.step == 40
