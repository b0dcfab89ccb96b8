"""Memory plan: the estimate, the resulting limit of splats, and recovery from a failed allocation."""

import dataclasses
import os
import weakref
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from splat_cli.config.presets import load_config
from splat_cli.data.image_budget import ImageBudget, photo_bytes
from splat_cli.device import open_backend
from splat_cli.device.cpu import CpuBackend
from splat_cli.errors import OutOfMemory
from splat_cli.eval.evaluate import TrainedModel, evaluate
from splat_cli.run.plan import resolve_plan
from splat_cli.run.setup import memory_plan
from splat_cli.run.setup.memory_plan import plan_memory
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.train import allocation
from splat_cli.train.step import BatchStep
from tests.noise_trainer import noise_trainer
from tests.training import SETTINGS
from tests.views import ring_of_views

MIB = 2**20


class Budget:
    """NumPy with a limit of `limit` bytes for all arrays from `empty` and `zeros` together."""

    def __init__(self):
        self.limit, self.live = float("inf"), 0

    def __getattr__(self, name):
        return getattr(np, name)

    def empty(self, shape, dtype="float64"):
        return self._counted(np.empty, shape, dtype)

    def zeros(self, shape, dtype="float64"):
        return self._counted(np.zeros, shape, dtype)

    def _counted(self, make, shape, dtype):
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if size and self.live + size > self.limit:
            raise MemoryError(size)
        array = make(shape, dtype)
        self.live += size
        weakref.finalize(array, self._release, size)
        return array

    def _release(self, size):
        self.live -= size


@pytest.fixture
def budget():
    return Budget()


@pytest.fixture
def backend(budget):
    backend = open_backend("cpu", threads=1)
    backend.xp = budget
    return backend


def _trainer(backend, num_points=2000, **changes):
    return noise_trainer(backend, num_points, **{**SETTINGS, **changes})


def _plan(backend, views=(), budget=None, num_frozen=0, **changes):
    views = views or ring_of_views(4)
    config = resolve_plan(load_config(None, {"splat_budget": 0, **changes}), views).config
    return plan_memory(backend, config, views, 100, budget, num_frozen)


@pytest.mark.parametrize(("batch", "branches"), [(1, 1), (3, 1), (4, 2), (4, 4)])
def test_estimate_is_what_is_allocated(batch, branches, monkeypatch):
    backend = open_backend("cpu")
    num = 8192
    for module in (allocation, memory_plan):
        monkeypatch.setattr(module, "num_branches", lambda *_: branches)
    trainer = _trainer(backend, num, max_splats=num, batch=batch)
    raster, model = trainer.rasterizer, trainer.model
    arrays = [*model.planes().values(), trainer.loss.d_maps, *(shown[0] for shown in trainer.images._resident.values())]
    for part in (raster.projected_batch, *raster.pictures, *raster.tile_lists):
        arrays += [value for value in vars(part).values() if isinstance(value, np.ndarray)]
    shared = "means2d", "conic_opacity", "tile_counts", "large_splats"  # the others are views of raster.projected_batch
    arrays += [getattr(projection, name) for projection in raster.projections for name in shared]
    arrays = list({id(array): array for array in arrays}.values())  # lists of tiles share some
    plan = plan_memory(backend, trainer.config, trainer.cameras.views, num)
    growing = num * (4 * 59 + 8)  # a row of parameters and the scores are temporary
    expected = plan.photographs + plan.pictures + plan.splat_bytes(num) - growing
    assert sum(array.nbytes for array in arrays) == pytest.approx(expected, rel=0.01)


def test_cap_is_what_fits_into_the_memory_allowed():
    backend = open_backend("cpu")
    plan = _plan(backend, max_memory=0.1)
    assert plan.max_splats < plan.wanted_splats == 1_000_000
    others, limit = plan.photographs + plan.pictures, 0.1 * 1024 * MIB
    assert others + plan.splat_bytes(plan.max_splats) <= limit < others + plan.splat_bytes(plan.max_splats + 2)
    assert _plan(backend, max_memory=0.1, max_splats=10_000).max_splats == 10_000
    assert _plan(backend, max_memory=0.1, sh_degree=0).max_splats > 1.5 * plan.max_splats


def test_five_percent_of_the_free_memory_stay_free(monkeypatch):
    backend = open_backend("cpu")
    monkeypatch.setattr(backend, "memory", lambda: (10_000 * MIB, 20_000 * MIB))
    assert _plan(backend).available == 9_500 * MIB
    assert _plan(backend, max_memory=1.0).available == 1024 * MIB


def test_few_pairs_per_splat_are_planned_for_very_many_splats():
    backend = open_backend("cpu")
    plan = _plan(backend, max_memory=112.0, max_splats=200_000_000)
    plan = dataclasses.replace(plan, available=112 * 1024 * MIB)  # on another machine
    others = plan.photographs + plan.pictures
    assert 130_000_000 < plan.max_splats < 200_000_000  # 113 million with as many pairs as few splats have
    assert others + plan.splat_bytes(plan.max_splats) <= plan.available
    assert others + plan.splat_bytes(plan.max_splats + 2) > plan.available


def test_frozen_splats_take_less_memory():
    backend = open_backend("cpu")
    plan = _plan(backend, max_memory=112.0, max_splats=200_000_000)
    plan = dataclasses.replace(plan, available=112 * 1024 * MIB)
    others, num = plan.photographs + plan.pictures, plan.max_splats + 10_000_000
    frozen = dataclasses.replace(plan, num_frozen=10_000_000)
    assert plan.max_splats - 9_100_000 < frozen.max_splats < plan.max_splats - 9_000_000
    used = [others + frozen.splat_bytes(frozen.max_splats + 10_000_000 + more) for more in (0, 2)]
    assert used[0] <= plan.available < used[1]
    trainable = plan.trainable_of(num)
    assert abs(dataclasses.replace(plan, num_frozen=num - trainable).fitting - trainable) < 4
    assert (plan.trainable_of(1000), plan.trainable_of(10**9)) == (1000, 0)
    assert dataclasses.replace(plan, on_host=(100, 99_999)).trainable_of(1000) == 0
    beside = plan.fitting_beside_frozen
    assert abs(dataclasses.replace(plan, num_frozen=beside).fitting - beside) < 3


@pytest.fixture
def with_host_room(monkeypatch):
    """CPU backends that offer host memory, as a GPU does; records rows, rows on the device and columns of planes."""
    found = set()

    def planes(self, rows, columns, on_device):
        found.add((rows, on_device, columns))
        return self.xp.zeros((rows, columns), "float32")

    monkeypatch.setattr(CpuBackend, "host_room", lambda self: 64 * 1024 * MIB)
    monkeypatch.setattr(CpuBackend, "planes", planes)
    return found


def _used(plan):
    return plan.photographs + plan.pictures + plan.splat_bytes(plan.wanted_splats + plan.num_frozen)


@pytest.mark.usefixtures("with_host_room")
def test_rows_go_to_the_host_until_the_splats_fit():
    backend, settings = open_backend("cpu"), {"max_splats": 10_000_000, "batch": 1}
    plans = [_plan(backend, max_memory=gib, **settings) for gib in (16.0, 4.2, 4.0, 3.2, 2.0)]
    assert plans[0].on_device is None
    assert "host" not in plans[0].line()
    for plan in plans[1:-1]:
        assert plan.max_splats == 10_000_000
        assert _used(plan) <= plan.available < _used(plan) + 4 * 10_000_000, plan.on_device
        rows = plan.on_device
        assert rows.params == 59 or rows.moments == 1  # moments go first
        assert plan.on_host[0] == 4 * (59 - rows.params + 14 - rows.moments) > 0
        assert "iB of splats and moments in host memory" in plan.line()
    least = plans[-1]
    assert (least.on_device.params, least.on_device.moments) == (14, 1)
    assert 1_000_000 < least.max_splats < 10_000_000


@pytest.mark.usefixtures("with_host_room")
def test_offload_on_and_off(monkeypatch):
    backend, little = open_backend("cpu"), {"max_memory": 0.7, "batch": 1}
    assert _plan(backend, **little).on_device
    off, on = (_plan(backend, offload=offload, **little) for offload in ("off", "on"))
    assert off.on_device is None
    assert (on.on_device.params, on.on_device.moments) == (14, 1)
    assert off.max_splats < 1_000_000 == on.max_splats
    assert _plan(backend, offload="on", batch=1).on_device == on.on_device
    assert _plan(backend, **little, sh_degree=0).on_device is None
    assert _plan(backend, **little, color="field", field_sh_degree=2, field_features=4).on_device is None
    assert _plan(backend, **(little | {"batch": 2}), gpus=2).on_device is None
    monkeypatch.setattr(CpuBackend, "host_room", lambda self: 232 * 500_000)
    assert _plan(backend, offload="on", batch=1).max_splats == 500_000
    photographs = 4 * photo_bytes(ring_of_views(1)[0])
    beside = _plan(backend, budget=ImageBudget(1, 0, on_host=True), offload="on", batch=1)
    assert beside.max_splats == (232 * 500_000 - photographs) // 232
    frozen = _plan(backend, offload="on", batch=1, num_frozen=100_000)
    assert 232 * frozen.max_splats + 180 * 100_000 == pytest.approx(232 * 500_000, abs=232)  # without moments
    assert 4 * beside.photographs == photographs
    few = _plan(backend, offload="on", batch=1, max_splats=200_000, num_frozen=100_000)
    host = (232 * 300_000 - 52 * 100_000) / 2**20
    assert f"; {host:.1f} MiB of splats and moments in host memory" in few.line()


@pytest.mark.usefixtures("with_host_room")
@pytest.mark.parametrize(
    "changes",
    [
        {"max_memory": 0.7, "offload": "off"},
        {"max_memory": 0.4, "sh_degree": 0},
        {"max_memory": 1.5},
        {"max_memory": 0.7},
    ],
    ids=str,
)
def test_views_follow_one_another_if_several_at_the_same_time_do_not_fit(changes, monkeypatch):
    """As many splats fit as with one at a time; rows go to host memory only if that is not enough, either."""
    backend = open_backend("cpu")
    expected = _plan(backend, batch=4, **changes)
    monkeypatch.setattr(memory_plan, "num_branches", lambda *_: 4)
    found = _plan(backend, batch=4, **changes)
    assert (found.branches, found) == (1, expected)
    assert (found.on_device is None) == (changes != {"max_memory": 0.7})
    assert _plan(backend, batch=4).branches == 4


@pytest.mark.parametrize("max_memory", [None, 0.003])
def test_the_plan_decides_how_many_views_are_rendered_at_the_same_time(training, tmp_path, monkeypatch, max_memory):
    found = set()
    for module in (allocation, memory_plan):
        monkeypatch.setattr(module, "num_branches", lambda *_: 4)
    monkeypatch.setattr(BatchStep, "measure_loss", lambda step, state=None: found.add(step.branches))
    training.new(tmp_path / "run", max_memory=max_memory, max_splats=5000, batch=4, splat_budget=0, report=False)
    assert found == {1 if max_memory else 4}


def test_on_the_cpu_nothing_is_offloaded():
    backend = open_backend("cpu")
    assert _plan(backend, offload="on", max_memory=0.1).on_device is None


def test_offloaded_run_gives_the_same_bits_and_resumes(training, tmp_path, with_host_room):
    changes = {"max_splats": 5000, "splat_budget": 0.0, "batch": 1}
    plain = training.new(tmp_path / "plain", **changes)
    with_host_room.clear()
    run = training.new(tmp_path / "run", max_memory=0.0024, **changes)
    placed = {plane for plane in with_host_room if plane[1] < plane[0]}
    assert {columns for _, _, columns in placed} == {8192}  # room for all splats from the start
    assert "of splats and moments in host memory" in "".join(training.said)
    assert run.ply_path(60).read_bytes() == plain.ply_path(60).read_bytes()
    for finished, changed in ((run, {}), (plain, {"max_memory": 0.0024})):
        with_host_room.clear()
        again = training.resume_before_end(finished, tmp_path / f"resumed {finished.path.name}", **changed)
        assert again.ply_path(60).read_bytes() == plain.ply_path(60).read_bytes()
        assert with_host_room == placed | {(2, 2, 8192), (59, 59, 8192)}


def test_gpus_have_parts_of_the_photographs():
    backend, views = open_backend("cpu"), ring_of_views(9)
    alone, divided = (_plan(backend, views, batch=4, gpus=gpus).photographs for gpus in (1, 2))
    assert (alone, divided) == (9 * photo_bytes(views[0]), 5 * photo_bytes(views[0]))


def test_without_any_room_the_message_names_three_settings(training, tmp_path):
    with pytest.raises(OutOfMemory, match=r"do not fit; --downscale 2 saves .* --sh-degree 0 .* --max-splats"):
        training.new(tmp_path / "run", max_memory=0.001, max_splats=5000, steps=100)


def test_run_is_told_what_it_takes_and_capped(training, tmp_path):
    run = training.new(tmp_path / "run", max_memory=0.003, max_splats=50_000)
    assert any(line.startswith("Memory: ") for line in training.said)
    warning = next(line for line in training.said if line.startswith("Warning: only "))
    cap = int(warning.split()[2].replace(",", ""))
    assert run.result()["num_splats"] <= cap < 50_000
    assert run.config().max_splats == 50_000


def test_fewer_splats_are_planned_again_because_they_have_two_sets_of_buffers(training, tmp_path, monkeypatch):
    monkeypatch.setattr(allocation, "MAX_AHEAD", 40_000)
    training.new(tmp_path / "run", max_memory=0.003, max_splats=50_000, splat_budget=0, batch=4)
    first, second = (int(line.split()[2].replace(",", "")) for line in training.said if "splats fit" in line)
    assert second < first < 40_000


@pytest.mark.parametrize("strategy", ["default", "adc", "mcmc"])
def test_growth_that_does_not_fit_ends_and_training_continues(backend, budget, strategy):
    trainer = _trainer(backend, 4000, strategy=strategy, max_splats=4000, grad_threshold=0.0)
    trainer.density.limit(100_000)
    trainer.config = trainer.density.config
    trainer.run_until(5)
    budget.limit = budget.live + MIB // 4
    trainer.run_until(60)
    assert trainer.step == 60
    assert trainer.notices[0].startswith("out of device memory at step ")
    assert trainer.model.num <= trainer.config.max_splats < 100_000
    assert np.isfinite(trainer.splats.params[:, : trainer.model.num]).all()
    assert len({array.shape[1] for array in trainer.model.planes().values()}) == 1


def test_pairs_that_do_not_fit_cost_the_most_transparent_splats(backend, budget):
    trainer = _trainer(backend, densify_start=100)
    trainer.run_until(2)
    trainer.splats.params[10, :1000] = -3.0
    trainer.splats.params[3:6, :2000] = 1.0  # splats that cover every tile
    trainer.rasterizer.resize_pairs(4096)
    budget.limit = budget.live
    trainer.run_until(10)
    assert trainer.step == 10
    assert "least opaque were pruned" in trainer.notices[0]
    assert 100 < trainer.model.num < 2000
    assert np.isfinite(trainer.splats.params[:, : trainer.model.num]).all()


def test_views_follow_one_another_before_splats_are_pruned(backend, budget, monkeypatch):
    """If memory runs out; splats may then still be added."""
    settings = {"batch": 4, "densify_start": 15, "max_splats": 3000}
    expected = _trainer(open_backend("cpu", threads=1), **settings)
    expected.run_until(60)
    monkeypatch.setattr(allocation, "num_branches", lambda *_: 4)
    trainer = _trainer(backend, **settings)
    trainer.run_until(4)
    assert trainer.batch_step.branches == 4
    trainer.rasterizer.resize_pairs(int(trainer.state.read()["needed_pairs"]) // 2)
    budget.limit = budget.live
    trainer.run_until(60)
    assert (trainer.step, trainer.batch_step.branches) == (60, 1)
    assert trainer.notices == ["out of device memory at step 4: continuing with one view at a time"]
    assert trainer.model.num == trainer.config.max_splats == 3000
    np.testing.assert_array_equal(trainer.splats.params[:, :3000], expected.splats.params[:, :3000])


def test_measuring_that_does_not_fit_gets_what_training_had(backend, budget):
    trainer, other = _trainer(backend), _trainer(open_backend("cpu", threads=1))
    trainer.run_until(5)
    views = trainer.cameras.views
    photographs = ImageSet(views, [np.zeros((view.height, view.width, 3), np.uint8) for view in views], [None] * 4, [])

    def work():
        return evaluate(TrainedModel(trainer.splats), photographs, trainer.config)

    expected = work()
    budget.limit = budget.live
    with pytest.raises(MemoryError):
        work()
    assert trainer.run_with_memory_fallback(work) == expected
    trainer.run_until(8)
    other.run_until(8)
    np.testing.assert_array_equal(trainer.splats.params, other.splats.params)
    assert trainer.notices == []


def test_a_sort_that_does_not_fit_takes_the_place_of_scratch_buffers(backend, budget, monkeypatch):
    sorted_splats = []
    for trainer in (_trainer(open_backend("cpu", threads=1)), _trainer(backend)):
        trainer.run_until(5)
        monkeypatch.setattr(trainer.density.strategy, "refine", lambda *_: [])
        before = trainer.splats.params[:, :2000].copy()
        budget.limit = budget.live + 20_000  # a sort takes more
        trainer.density.refine(5, True, trainer.density.rng.bit_generator.state)
        sorted_splats.append(trainer.splats.params[:, :2000].copy())
        assert (sorted_splats[-1] != before).any()
        trainer.run_until(8)
    np.testing.assert_array_equal(*sorted_splats)


def test_no_room_for_buffers_after_a_sort_is_out_of_memory(backend, budget, monkeypatch):
    trainer = _trainer(backend)
    trainer.run_until(5)
    monkeypatch.setattr(trainer.density.strategy, "refine", lambda *_: [])
    budget.limit = budget.live + 20_000
    released = trainer.scratch.release

    def release():
        released()
        budget.limit = budget.live + 200_000  # enough to sort, not for the buffers

    monkeypatch.setattr(trainer.scratch, "release", release)
    with pytest.raises(MemoryError):
        trainer.density.refine(5, True, trainer.density.rng.bit_generator.state)


def test_no_splats_fit(backend, budget):
    trainer = _trainer(backend)
    trainer.run_until(2)
    trainer.splats.params[3:6, :2000] = 1.0
    budget.limit = 0
    with pytest.raises(OutOfMemory, match="use --max-splats, a larger --downscale or --sh-degree 0"):
        trainer.run_until(10)


@pytest.mark.slow
def test_memory_does_not_grow_with_steps():
    with ProcessPoolExecutor(1, get_context("spawn")) as alone:  # other tests leave holes in this process's memory
        assert alone.submit(_growth).result() < MIB


def _growth():
    """Growth of a process in bytes in 4000 steps, after the first 2000."""
    trainer = _trainer(CpuBackend(threads=1), 200, steps=6000, densify_stop=6000, max_splats=300)
    trainer.run_until(2000)
    before = _resident()
    trainer.run_until(6000)
    return _resident() - before


def _resident():
    """Resident memory of this process, in bytes."""
    with open(f"/proc/{os.getpid()}/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
