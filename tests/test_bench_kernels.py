"""`scripts/bench/bench_kernels.py` times what it names, on a CPU as well: replays repeat the whole work."""

import numpy as np
import pytest
from blend_stages import KERNELS, STAGES
from model_passes import measure
from stage_passes import _rasterizer, _render, measure_stages

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
    stage.launch(raster, state, once)
    replay = cpu.capture_graph(lambda: stage.launch(raster, state, replayed))
    for _ in range(3):
        replay()
    assert np.abs(once).max() > 0
    np.testing.assert_allclose(replayed, 3 * once, rtol=1e-3, atol=1e-5 * np.abs(once).max())


def test_times_of_stages_grow_with_work(cpu):
    few = measure_stages(cpu, splats(100), ring_of_views(1, 48, 32), antialias=False)
    many = measure_stages(cpu, splats(8000), ring_of_views(1, 96, 64), antialias=False)
    assert many["work"]["pairs"] > 50 * few["work"]["pairs"]
    for less, more in zip(few["stages"], many["stages"], strict=True):
        assert more["ms"] > 5 * less["ms"], more["name"]


@pytest.mark.parametrize("degree", [0, 1, 3])
def test_passes_of_a_step_have_pairs_at_any_degree(cpu, degree):
    arrays = some_splats(3000, degree, log_scales=(-2.5, 0.3), spread=0.5)
    found = measure(cpu, arrays, ring_of_views(2))
    assert found["pairs"] > 3000
    times = {row["pass"]: row["ms"] for row in found["rows"]}
    assert times["step"] == pytest.approx(sum(ms for name, ms in times.items() if name != "step"))
    assert times["blend_backward"] > 0
