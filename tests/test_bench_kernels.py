"""`scripts/bench/bench_kernels.py` times the named passes, also on a CPU, where replays repeat all work."""

import numpy as np
import pytest
import stage_passes
from blend_stages import KERNELS, STAGES, last_pairs
from model_passes import run
from stage_passes import _rasterizer, _render, measure_stages
from step_passes import make_bench, run_all

from splat_cli.device import open_backend
from tests.gaussians.some_splats import some_splats
from tests.views import ring_of_views

ON_CPU = [stage for stage in STAGES if not stage.cuda_only]


@pytest.fixture(scope="module")
def cpu():
    return open_backend("cpu", sources=KERNELS)


def splats(num):
    return some_splats(num, degree=1, log_scales=(-2.5, 0.3), spread=0.5)


@pytest.mark.parametrize("stage", ON_CPU, ids=lambda stage: stage.name)
def test_each_replay_of_a_stage_adds_the_gradients_again(cpu, stage):
    device, raster, state = _rasterizer(cpu, splats(300), ring_of_views(1), antialias=False)
    _render(raster, device, state, 0)
    once, replayed = (cpu.xp.zeros((device.capacity, stage.columns), "float32") for _ in range(2))
    last = last_pairs(raster, state)
    stage.launch(raster, state, last, once)
    replay = cpu.capture_graph(lambda: stage.launch(raster, state, last, replayed))
    for _ in range(3):
        replay()
    assert np.abs(once).max() > 0
    np.testing.assert_allclose(replayed, 3 * once, rtol=1e-3, atol=1e-5 * np.abs(once).max())


def test_times_of_stages_grow_with_work(cpu, monkeypatch):
    monkeypatch.setattr(stage_passes, "MAX_SECONDS", 0.1)
    few = measure_stages(cpu, splats(50), ring_of_views(1, 48, 32), antialias=False)
    many = measure_stages(cpu, splats(2000), ring_of_views(1, 96, 64), antialias=False)
    assert many["work"]["pairs"] > 40 * few["work"]["pairs"]
    for less, more in zip(few["stages"], many["stages"], strict=True):
        assert more["ms"] > 4 * less["ms"], more["name"]


@pytest.mark.parametrize("degree", [0, 1, 3])
def test_passes_of_a_step_have_pairs_at_any_degree(cpu, degree):
    arrays = some_splats(3000, degree, log_scales=(-2.5, 0.3), spread=0.5)
    bench = make_bench(cpu, arrays, ring_of_views(2))
    assert bench.state.read()["sh_degree"] == degree
    run_all([function for _, function in bench.passes])
    state = bench.state.read()
    assert state["sh_degree"] == degree
    assert state["num_pairs"] > 3000


def test_counts_of_tiles_do_not_add_up_over_replays(cpu):
    """The prefix lacks the pass that clears them, so pairs would overflow in the next replay."""
    bench = make_bench(cpu, splats(300), ring_of_views(2))
    bench.passes[2:] = []
    assert [row["pass"] for row in run(bench, 2)] == ["begin_step", "project", "step"]
    assert not cpu.download(bench.raster.projection.tile_counts).any()
