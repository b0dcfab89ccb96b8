"""Captured graphs: replayed, and captured again after buffers were reallocated."""

import numpy as np
import pytest

from splat_cli.config.presets import load_config
from splat_cli.device import open_backend
from splat_cli.gaussians.arrays import zero_splats
from splat_cli.run.plan import resolve_plan
from splat_cli.train import allocation
from tests.noise_trainer import noise_trainer
from tests.training import SETTINGS
from tests.views import ring_of_views


class GraphTrainer:
    """A trainer with graphs that keep the arrays from their capture, as on a GPU."""

    def __init__(self, num_points=200):
        self.replays = 0
        backend = open_backend("cpu")
        backend.capture_graph = self._capture
        self.trainer = noise_trainer(backend, num_points, **{**SETTINGS, "max_splats": 10 * num_points})

    def _arrays(self):
        raster = self.trainer.rasterizer
        return raster.projection, raster.tiles, raster.rendered, self.trainer.splats.params

    def _capture(self, function):
        captured = self._arrays()

        def replay():
            assert all(a is b for a, b in zip(captured, self._arrays(), strict=True))
            self.replays += 1
            function()

        return replay


@pytest.fixture
def graphs():
    return GraphTrainer()


def test_steps_are_replayed(graphs):
    graphs.trainer.run_until(4)
    assert graphs.replays == 3


def test_graphs_are_recaptured_after_pair_buffers_grow(graphs):
    graphs.trainer.run_until(20)
    before = graphs.replays
    graphs.trainer.rasterizer.resize_pairs(16)
    graphs.trainer.run_until(40)
    assert graphs.trainer.step == 40
    assert graphs.trainer.rasterizer.tiles.pair_capacity > 16
    assert graphs.replays > before + 10


def test_graphs_are_recaptured_after_the_model_grows():
    graphs = GraphTrainer(num_points=2000)
    capacity = graphs.trainer.splats.capacity
    graphs.trainer.run_until(50)
    assert graphs.trainer.splats.capacity > capacity


def test_small_models_have_all_room_from_the_start_on_a_gpu(backend):
    """Whenever arrays grow, graphs are captured again; memory is planned for all splats."""
    for limit in (10_000, 600_000):
        trainer = noise_trainer(backend, 200, **SETTINGS | {"splat_budget": 0, "max_splats": limit})
        room = min(limit, 1 << 19) if backend.name == "cuda" else 2 * trainer.splats.num
        assert room <= trainer.splats.capacity < room + 4096  # rounded up


@pytest.mark.parametrize(
    ("changes", "room"), [({}, 524_288), ({"densify_stop": 0}, 4096), ({"gpus": 2, "batch": 2}, 4096)]
)
def test_models_that_never_grow_have_no_more_room(changes, room):
    """The memory plan counts only their initial splats. With several GPUs, ranks divide the splats."""
    backend = open_backend("cpu")
    backend.name = "cuda"
    config = resolve_plan(load_config(None, {"steps": 100, "splat_budget": 0} | changes), ring_of_views(4)).config
    assert allocation.make_model(backend, config, zero_splats(200, 0), None, None).splats.capacity == room


def test_graph_is_recaptured_after_memory_fallback(graphs):
    graphs.trainer.run_until(20)
    tries = []

    def work():
        tries.append(None)
        if len(tries) == 1:
            raise MemoryError

    graphs.trainer.run_with_memory_fallback(work)
    graphs.trainer.run_until(40)
    assert len(tries) == 2
    assert graphs.trainer.step == 40


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
def test_replayed_steps_equal_launched_ones(settings):
    """A step makes no NumPy calls: a captured graph on the CPU would not contain them."""
    splats = []
    for replayed in (True, False):
        backend = open_backend("cpu", threads=1)
        if not replayed:
            backend.capture_graph = lambda function: function
        trainer = noise_trainer(backend, 100, **{**SETTINGS, "steps": 24, **settings})
        trainer.run_until(24)
        splats.append(backend.download(trainer.splats.params))
    np.testing.assert_array_equal(*splats)
