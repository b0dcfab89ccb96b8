"""Batches: one update by the mean gradient of several views."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from splat_cli.config.presets import load_config
from splat_cli.device import Backend, open_backend
from splat_cli.device.cpu import CpuBackend
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.splats import Splats
from splat_cli.joint.depth.supervision import DepthSupervision
from splat_cli.joint.joint_model import JointModel
from splat_cli.model.model import RowsOnDevice, zero_moments
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import SPLAT_SUMS, RasterizationSettings, Update
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.run.plan import resolve_plan
from splat_cli.train import allocation
from splat_cli.train.joint_models import MODELS
from tests.compare import Comparison
from tests.model.moments import set_moments, unpacked
from tests.model.test_adam import RATE_OF_ROW, RATES, REFERENCE_SIZE, check_rounding
from tests.noise_trainer import noise_trainer
from tests.reference import adam, project, project_backward
from tests.reference.inputs import Camera, float32_exact
from tests.reference.project import Options
from tests.reference.random_scene import ordinary, random_camera
from tests.render.on_device import gradients_of_sums, view_of
from tests.training import SETTINGS
from tests.views import ring_of_views

SIZE, STEP = 4, 8
TURNED = slice(6, 10)  # rows of rotations: those of round splats have no gradient
TRAINED = {**SETTINGS, "batch": 4, "densify_interval": 8, "dropout": 0.1}


def _planes(splats: object) -> np.ndarray:
    """Parameters or their gradients as [rows, N]."""
    values = dict(splats.items())
    return np.concatenate([array.reshape(len(array), -1).T for array in values.values()])


def _moved(w2c: np.ndarray, distance: float) -> np.ndarray:
    moved = w2c.copy()
    moved[0, 3] += distance
    return float32_exact(moved)


def _reference_gradient(device_sums: np.ndarray, splats: object, camera: Camera) -> np.ndarray:
    """Float64 gradients of a view [rows, N] from the sums of its blend."""
    options = Options()
    projected = project.forward(splats, camera, options)
    sums = np.where(projected.visible[:, None], device_sums, 0)
    opacities = np.where(projected.visible, projected.opacities, 1)
    d_projected = gradients_of_sums(sums, projected.conics, opacities)
    return _planes(project_backward.backward(splats, camera, options, projected, d_projected)[0])


def test_update_is_adam_on_the_mean_gradient(backend: Backend, comparison: Comparison) -> None:
    """Within 1e-5 of the float64 reference with rates times sqrt(SIZE) and betas to the power of SIZE."""
    rng = np.random.default_rng(0)
    camera = random_camera(rng)
    cameras = [replace(camera, w2c=_moved(camera.w2c, 0.2 * k)) for k in range(SIZE)]
    scene = ordinary(rng, camera, 40)
    arrays = {name: values.astype(np.float32) for name, values in scene.items()}
    splats = Splats.from_arrays(backend, SplatArrays(**arrays), 50)
    state = IterState(backend, step=STEP, num_splats=40, sh_degree=3, lr=RATES, reference_size=REFERENCE_SIZE)
    state.write(inv_bias1=1 / (1 - 0.9**STEP), inv_root_bias2=(1 - 0.999**STEP) ** -0.5)
    settings = RasterizationSettings(training=True, batch=SIZE)
    raster = Rasterizer(backend, CameraTable(backend, [view_of(c) for c in cameras]), 50, settings)
    moments = zero_moments(splats)
    set_moments(backend, moments, np.zeros(moments.shape), np.full(moments.shape, 1e-4))
    before = [backend.download(splats.params)[:, :40].astype(np.float64)]
    before += unpacked(backend.download(moments)[:, :40])
    gradients, seen = [], np.zeros(40, bool)
    for slot, camera in enumerate(cameras):
        raster.select(slot)
        state.write(view=slot, num_large=0, segments_in_bins=[0] * 4)
        raster.forward(splats, state)
        pixels = 3 * camera.width * camera.height
        raster.rendered.d_image[:pixels] = backend.upload(rng.normal(size=pixels).astype(np.float32))
        raster.backward_to_projection(splats, state, absgrad=False)
        raster.record_view(slot, state)
        visible = backend.download(raster.projection.depths)[:40] > 0
        seen |= visible
        sums = backend.download(raster.projection.d_splats)[:40]
        sums = np.where(visible[:, None], sums, 0).astype(np.float64)  # other rows are undefined, perhaps no numbers
        gradients.append(_reference_gradient(sums.reshape(40, SPLAT_SUMS), scene, camera))
    raster.update(splats, state, Update(moments))

    after = [backend.download(splats.params)[:, :40], *unpacked(backend.download(moments)[:, :40])]
    touched = adam.is_updated(seen, len(before[0]))
    moved = _reference_adam(before, np.mean(gradients, axis=0), after[2][11:])
    expected = [np.where(touched[: len(old)], new, old) for new, old in zip(moved, before, strict=True)]
    comparison.check("Adam, batch", "update", (after[0] - before[0]).T, (expected[0] - before[0]).T, 1e-5)
    for k in (1, 2):
        check_rounding(after[k][touched[: len(after[k])]], expected[k][touched[: len(after[k])]])


def _reference_adam(before: list[np.ndarray], gradient: np.ndarray, stored: np.ndarray) -> tuple[np.ndarray, ...]:
    """Adam for a step that replaces SIZE steps; bias correction counts STEP steps of the unscaled betas."""
    return adam.step_along_axes(
        before[0],
        gradient,
        before[1],
        before[2],
        SIZE**0.5 * RATE_OF_ROW,
        STEP // SIZE,
        REFERENCE_SIZE,
        beta1=0.9**SIZE,
        beta2=0.999**SIZE,
        stored=stored,
    )


def _trained(pairs: dict[int, int] | None = None, steps: int = 48, **changes: object) -> tuple[np.ndarray, object]:
    """Parameters after `steps` steps. Before step k, buffers get room for pairs[k] pairs."""
    trainer = noise_trainer(open_backend("cpu", threads=1), 200, **{**TRAINED, **changes})
    for step, count in (pairs or {}).items():
        trainer.run_until(step)
        trainer.rasterizer.resize_pairs(count)
    trainer.run_until(steps)
    return trainer.splats.params[:, : trainer.model.num].copy(), trainer


@pytest.mark.parametrize(
    "changes", [{}, {"appearance": "exposure", "background": "learned", "pose_opt": True}], ids=["plain", "auxiliary"]
)
def test_overflow_within_a_batch_changes_no_bits(changes: dict[str, object]) -> None:
    expected, trainer = _trained(**changes)
    needed = int(trainer.state.read()["needed_pairs"])
    found, trainer = _trained({4: needed // 3, 12: 2 * needed // 3, 20: needed - 9, 28: needed + 9}, **changes)
    assert trainer.rasterizer.generation > 6
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "changes",
    [
        {"appearance": "grid"},
        {"color": "field", "field_table_size": 2**10},
        {"robust": True},
        {"strategy": "adc", "absgrad": True, "grad_threshold": 1e-4},
        {"visible_adam": True},
        {"smooth_3d": 0.2},
    ],
    ids=str,
)
def test_options_train_in_batches(changes: dict[str, object]) -> None:
    batches, trainer = _trained(steps=24, **changes)
    assert trainer.step == 24
    assert np.isfinite(batches).all()
    assert batches.shape != (single := _trained(steps=24, batch=1, **changes)[0]).shape or (batches != single).any()


def test_projecting_ahead_changes_no_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for ahead in (True, False):
        trainer = noise_trainer(open_backend("cpu", threads=1), 200, **TRAINED)
        assert (trainer.batch_step.projects_ahead, len(trainer.rasterizer.tile_lists)) == (ahead, 1 + ahead)
        monkeypatch.setattr(allocation, "MAX_AHEAD", 0)  # from the second trainer on
        trainer.run_until(16)
        found.append(trainer.splats.params.copy())
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("branches", [2, 4])
@pytest.mark.parametrize("changes", [{}, {"free_space": 1.0, "scene_points": True}, {"smooth_3d": 0.2}], ids=str)
def test_views_at_the_same_time_change_no_bits(
    changes: dict[str, object], branches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does an overflow, after which the whole batch is repeated."""
    expected, trainer = _trained(**changes)
    needed = int(trainer.state.read()["needed_pairs"])
    monkeypatch.setattr(allocation, "num_branches", lambda *_: branches)
    found, several = _trained(**changes)
    assert several.batch_step.branches == branches
    np.testing.assert_array_equal(found, expected)
    for name in ("step", "view", "skipped_updates", "skipped_steps"):
        assert several.state.read()[name] == trainer.state.read()[name]
    for name in ("loss", "psnr"):
        assert several.state.read()[name] == pytest.approx(trainer.state.read()[name], rel=0.01)
    found, several = _trained({4: needed // 3, 12: 2 * needed // 3, 20: needed - 9, 28: needed + 9}, **changes)
    assert several.rasterizer.generation > 6
    np.testing.assert_array_equal(found, expected)


def test_an_overflow_does_not_count_as_pairs_of_later_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """With several views on a branch, those after it find its pairs in their counters."""
    monkeypatch.setattr(allocation, "num_branches", lambda *_: 2)
    trainer = noise_trainer(open_backend("cpu", threads=1), 200, **TRAINED | {"batch": 8, "densify_start": 60})
    trainer.run_until(8)
    needed = int(trainer.state.read()["needed_pairs"])
    trainer.rasterizer.resize_pairs(needed // 2)
    trainer.run_until(16)
    assert trainer.step == 16
    assert needed <= trainer.rasterizer.tiles.pair_capacity < 2 * needed


def test_models_of_independent_views_only_add_losses() -> None:
    """Views that are rendered at the same time call nothing else of them."""
    independent = [model for model in MODELS if model.PROJECTS_AHEAD]
    assert independent
    for model in independent:
        assert model.ROLE is None
        for name in ("accumulate_gradients", "step", "update", "arrays", "resize"):
            assert getattr(model, name) is getattr(JointModel, name), f"{model.__name__}.{name}"


@pytest.mark.parametrize("branches", [2, 4])
def test_views_at_the_same_time_share_no_buffers(branches: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation, "num_branches", lambda *_: branches)
    trainer = noise_trainer(open_backend("cpu", threads=1), 200, **TRAINED)
    raster, found = trainer.rasterizer, []
    for branch in range(branches):
        raster.select(branch)
        trainer.loss.select(branch)
        parts = raster.projection, raster.tiles, raster.rendered, trainer.loss
        arrays = {id(value): value for part in parts for value in vars(part).values() if isinstance(value, np.ndarray)}
        found += [array.ctypes.data for array in arrays.values() if array is not trainer.loss.d_maps]
    assert len(set(found)) == len(found) == branches * 17


class InterleavedBackend(CpuBackend):
    """Executes launches of concurrent branches in random order, except for the order of each branch."""

    def __init__(self, seed: int) -> None:
        super().__init__(threads=1)
        self.rng, self.queues, self.queue = np.random.default_rng(seed), list[list[Any]](), None

    def kernel(self, file: str, name: str, **defines: int) -> Any:
        launch = super().kernel(file, name, **defines)
        queue = self.queue
        return launch if queue is None else lambda *arguments: queue.append(partial(launch, *arguments))

    def branch(self, launch: Any, number: int = 0) -> Any:
        self.queue = []
        launch()
        self.queues.append(self.queue)
        self.queue = None
        return self.join

    def join(self) -> None:
        while left := [queue for queue in self.queues if queue]:
            left[self.rng.integers(len(left))].pop(0)()
        self.queues.clear()


@pytest.mark.parametrize(("batch", "branches"), [(4, 2), (4, 4), (8, 4)])
@pytest.mark.parametrize("changes", [{}, {"free_space": 1.0, "scene_points": True}], ids=str)
def test_kernels_of_views_at_the_same_time_run_in_any_order(
    batch: int, branches: int, changes: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, _ = _trained(batch=batch, **changes)
    monkeypatch.setattr(allocation, "num_branches", lambda *_: branches)
    for seed in range(2):
        trainer = noise_trainer(InterleavedBackend(seed), 200, **{**TRAINED, "batch": batch, **changes})
        trainer.run_until(48)
        assert trainer.batch_step.branches == branches
        np.testing.assert_array_equal(trainer.splats.params[:, : trainer.model.num], expected)


def test_views_at_the_same_time_on_any_device(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each view has buffers of its own, whichever kernel runs first: a batch has the same gradients.

    Compared are first moments: Adam itself also moves by the sign of a gradient that is rounding alone.
    """
    found = []
    for branches in (1, 4):
        monkeypatch.setattr(allocation, "num_branches", lambda *_, count=branches: count)
        trainer = noise_trainer(backend, 200, **TRAINED | {"deterministic": False, "densify_start": 60})
        trainer.run_until(4)
        assert trainer.batch_step.branches == branches
        moments = unpacked(backend.download(trainer.model.moments)[:, : trainer.model.num])[0]
        found.append(np.delete(moments, TURNED, axis=0))
    largest = np.abs(found[0]).max(axis=1, keepdims=True)
    assert (largest > 0).all()
    assert (np.abs(found[0] - found[1]) < 0.01 * largest).all()


@pytest.mark.parametrize(
    ("changes", "pixels", "branches"),
    [
        ({}, 2_500_000, 4),
        ({}, 2_500_001, 1),
        ({"batch": 8}, 200_000, 8),
        ({"batch": 8}, 200_001, 4),
        ({"batch": 6}, 100, 2),
        ({"batch": 1}, 100, 1),
        ({"deterministic": True}, 100, 1),
        ({"gpus": 2}, 100, 1),
        ({"max_splats": 1_000_001}, 100, 1),
        ({"pose_opt": True}, 100, 1),
        ({"free_space": 1.0}, 100, 4),
    ],
    ids=str,
)
def test_small_photographs_are_rendered_at_the_same_time(
    changes: dict[str, object], pixels: int, branches: int
) -> None:
    config = resolve_plan(load_config(None, {"batch": 4, "splat_budget": 0, **changes}), ring_of_views(4)).config
    gpu, cpu = (SimpleNamespace(name=name) for name in ("cuda", "cpu"))
    assert allocation.num_branches(config, gpu, pixels, None, fetches=False) == branches  # type: ignore[arg-type]
    assert allocation.num_branches(config, gpu, pixels, None, fetches=True) == 1  # type: ignore[arg-type]
    assert allocation.num_branches(config, gpu, pixels, RowsOnDevice(59, 14), fetches=False) == 1  # type: ignore[arg-type]
    assert allocation.num_branches(config, cpu, pixels, None, fetches=False) == 1  # type: ignore[arg-type]


def test_last_batch_is_whole() -> None:
    trainer = noise_trainer(open_backend("cpu", threads=1), 200, **TRAINED)
    trainer.run_until(5)
    assert trainer.step == 8


def test_batch_with_nonfinite_loss_changes_nothing() -> None:
    trainer = noise_trainer(open_backend("cpu", threads=1), 200, **TRAINED | {"densify_start": 60, "noise_scale": 0.0})
    before = trainer.splats.params.copy()
    backward, views = trainer.loss.backward, []

    def poisoned(state: IterState, *rest: object) -> None:
        views.append(None)
        if len(views) == 2:
            state.write(loss_l1=np.nan)
        backward(state, *rest)

    trainer.loss.backward = poisoned
    trainer.run_until(4)
    np.testing.assert_array_equal(trainer.splats.params, before)
    assert trainer.nonfinite_counts["skipped_steps"] == 4
    trainer.run_until(8)
    assert (trainer.splats.params != before).any()


def test_buffers_of_models_grow_with_the_splats() -> None:
    settings = SETTINGS | {"max_splats": 20_000, "depth_weight": 0.1}
    trainer = noise_trainer(open_backend("cpu"), 2000, scene_points=True, **settings)
    capacity = trainer.splats.capacity
    trainer.run_until(50)
    assert trainer.splats.capacity > capacity
    (supervision,) = (model for model in trainer.joint.models if isinstance(model, DepthSupervision))
    assert len(supervision.blended.values) == trainer.rasterizer.projection.d_means.shape[1] == trainer.splats.capacity
