"""Supervision of depth: gradients against the reference, the reference against central differences, visible points."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from splat_cli.config import ResolvedConfig, TrainConfig
from splat_cli.device import Backend
from splat_cli.joint.depth.supervision import DEPTH_MAP_DTYPE, DepthSupervision, MapTargets, PointTargets
from splat_cli.joint.joint_model import Decay
from splat_cli.render.project import SPLAT_SUMS, Update
from splat_cli.scene.depth_maps import DepthMap, DepthMaps
from splat_cli.scene.points.observations import MAX_POINTS, Observations, observe
from splat_cli.train.joint_models import joint_memory
from tests.compare import BACKWARD, Comparison
from tests.reference import blend, depth, project
from tests.reference.pipeline import central_difference
from tests.reference.project import Options
from tests.reference.random_scene import Scene, hard_scene, without_ties
from tests.render.on_device import OnDevice, blend_backward_of_noise, by_parameter, on_device
from tests.views import ring_of_views

WEIGHT = 0.7


def some_points(scene: Scene) -> tuple[np.ndarray, np.ndarray]:
    """Pixels and inverse depths, above and below the blended ones and far from the change of sign."""
    rng, camera = np.random.default_rng(0), scene.camera
    flat = depth.inverse_depths(project.forward(scene.splats, camera, Options()))
    blended = blend.forward(flat, np.zeros(3), camera.width, camera.height)
    steady = np.flatnonzero((blended.margin > 0.01).all(axis=0) if blended.margin.ndim == 3 else blended.margin > 0.01)
    pixels = rng.choice(steady, min(60, len(steady)), replace=False)
    image = blended.image[0].ravel()[pixels]
    return pixels.astype(np.int32), (image * rng.choice([0.5, 1.5], len(pixels)) + 0.05).astype(np.float32)


def test_reference_against_central_differences() -> None:
    scene = without_ties(hard_scene(1, num=72))
    pixels, targets = some_points(scene)

    def loss_of(**changes: np.ndarray) -> float:
        splats = replace(scene.splats, **changes)
        return depth.loss_and_gradients(splats, scene.camera, Options(), pixels, targets.astype(float), WEIGHT)[0]

    _, gradients = depth.loss_and_gradients(
        scene.splats, scene.camera, Options(), pixels, targets.astype(float), WEIGHT
    )
    rng = np.random.default_rng(0)
    for name in ("means", "log_scales", "quats", "logit_opacities"):
        at, gradient = getattr(scene.splats, name), getattr(gradients, name)
        for _ in range(3):
            direction = rng.normal(size=at.shape) / np.sqrt(at.size)
            expected = central_difference(lambda moved, name=name: loss_of(**{name: moved}), at, direction)
            assert float((gradient * direction).sum()) == pytest.approx(expected, rel=1e-4, abs=1e-6)


def supervised(backend: Backend, scene: Scene) -> tuple[OnDevice, DepthSupervision, np.ndarray, np.ndarray]:
    """Only the second of two views has points; gradients of colours are random."""
    device = on_device(backend, scene, Options())
    pixels, targets = some_points(scene)
    begins, numbers = np.array([0, 0, len(pixels)], np.int32), np.arange(len(pixels), dtype=np.int32)
    observations = Observations(begins, pixels, targets, numbers)
    supervision = DepthSupervision(backend, PointTargets(backend, observations), Decay(WEIGHT, WEIGHT, 100))
    supervision.resize(device.splats.capacity)
    blend_backward_of_noise(device, seed=1, scale=0.01)
    return device, supervision, pixels, targets


@pytest.mark.parametrize("seed", [1, 2])
def test_gradients(backend: Backend, comparison: Comparison, seed: int) -> None:
    """Change of the gradients of raw parameters due to supervision."""
    scene = hard_scene(seed)
    device, supervision, pixels, targets = supervised(backend, scene)
    num, xp = scene.splats.num, backend.xp
    results = []
    for supervise in (False, True):
        if supervise:
            supervision.accumulate_gradients(device.splats, device.state, device.rasterizer)
        d_params = xp.zeros_like(device.splats.params)
        device.update(Update(d_params=d_params))
        results.append(by_parameter(device.download(d_params), num))
    flat_targets = targets.astype(float)
    _, expected = depth.loss_and_gradients(scene.splats, scene.camera, Options(), pixels, flat_targets, WEIGHT)
    for name in ("means", "log_scales", "quats", "logit_opacities", "sh0"):
        actual = getattr(results[1], name) - getattr(results[0], name)
        comparison.check("depth_backward", name, actual, getattr(expected, name), 20 * BACKWARD)
    assert device.state.read()["segments_in_bins"].any()


def test_background_is_infinitely_far_away(backend: Backend) -> None:
    """The background's colour does not contribute to the inverse depth."""
    device, supervision, _, _ = supervised(backend, hard_scene(1))
    device.state.write(background=(0.9, 0.5, 0.1))
    device.rasterizer.rendered.final_T[...] = 1  # nothing is subtracted beyond the picture, either
    supervision.accumulate_gradients(device.splats, device.state, device.rasterizer)
    camera = hard_scene(1).camera
    flat = depth.inverse_depths(project.forward(hard_scene(1).splats, camera, Options()))
    expected = blend.forward(flat, np.zeros(3), camera.width, camera.height).image
    np.testing.assert_allclose(device.image(), expected, atol=1e-3)


def test_points_are_seen_where_they_project_to() -> None:
    view = ring_of_views(3)[0]
    points = np.random.default_rng(0).normal(0, 0.05, (5, 3))
    found = observe([view], points)
    assert found.begins.tolist() == [0, len(found.pixels)]
    depths = (points @ view.w2c[:3, :3].T + view.w2c[:3, 3])[:, 2]
    assert all(np.abs(1 / depths - inverse).min() < 1e-6 for inverse in found.inverse_depths)
    row, column = np.divmod(found.pixels, view.width)
    assert np.abs(column - view.cx).max() < 3
    assert np.abs(row - view.cy).max() < 3


def test_hidden_points_are_ignored() -> None:
    """A wall hides the point behind it, but not the point next to it. Others are behind the camera or off the image."""
    view = replace(ring_of_views(1)[0], w2c=np.eye(4))
    across, down = (grid.ravel() for grid in np.meshgrid(np.linspace(-0.5, 0, 60), np.linspace(-0.4, 0.4, 60)))
    wall = np.column_stack([across, down, np.full(across.size, 2.0)])
    others = np.array([[-0.5, 0, 4], [0.8, 0, 4], [0, 0, -1], [9, 0, 2]])
    found = observe([view, view], np.concatenate([wall, others]))
    first = found.inverse_depths[: found.begins[1]]
    assert sorted(set(first.tolist())) == [0.25, 0.5]
    assert (first == 0.25).sum() == 1
    assert len(np.unique(found.pixels[: found.begins[1]])) == len(first) <= MAX_POINTS


def _inputs(
    backend: Backend, weight: float | None, points: np.ndarray | None, depth_maps: DepthMaps | None = None
) -> SimpleNamespace:
    """Settings of a run of 100 steps."""
    cameras = SimpleNamespace(current_views=ring_of_views(3))
    config = SimpleNamespace(depth_weight=weight, steps=100)
    return SimpleNamespace(backend=backend, cameras=cameras, config=config, points=points, depth_maps=depth_maps)


def test_depths_are_supervised_if_requested_and_the_scene_has_points(backend: Backend) -> None:
    points = np.zeros((5, 3), np.float32)
    assert not DepthSupervision.enabled(TrainConfig(depth_weight=0.0))
    assert not DepthSupervision.enabled(TrainConfig(depth_weight=None))
    assert DepthSupervision.make(_inputs(backend, 0.5, None)) is None
    supervision = DepthSupervision.make(_inputs(backend, 0.5, points))
    assert supervision is not None
    assert supervision.weight == Decay(0.5, 0.005, 100)
    assert isinstance(supervision.targets, PointTargets)
    np.testing.assert_array_equal(backend.download(supervision.targets.begins), [0, 1, 2, 3])  # points coincide


def test_depth_maps_replace_points(backend: Backend) -> None:
    maps = DepthMaps([DepthMap.of(np.full((3, 4), 2.0)), None, None])
    for points in (None, np.zeros((5, 3), np.float32)):
        supervision = DepthSupervision.make(_inputs(backend, 0.5, points, maps))
        assert supervision is not None
        assert isinstance(supervision.targets, MapTargets)
        table = backend.download(supervision.targets.table).view(DEPTH_MAP_DTYPE)[:, 0]
        assert table["scale"].tolist() == [2, 0, 0]
        assert table["height"].tolist() == [3, 0, 0]


def test_buffers_follow_the_capacity(backend: Backend) -> None:
    supervision = DepthSupervision.make(_inputs(backend, 0.5, np.zeros((5, 3), np.float32)))
    assert supervision is not None
    supervision.resize(64)
    first = supervision.blended.values
    assert len(first) == 64
    supervision.resize(64)
    assert supervision.blended.values is first
    supervision.resize(128)
    assert len(supervision.blended.values) == len(supervision.blended.d_values) == 128


def test_only_runs_with_depths_pay_for_them() -> None:
    costs = [joint_memory(ResolvedConfig(depth_weight=weight), 3).per_splat for weight in (0.0, 0.5)]
    assert costs == [0, 4 * (4 + SPLAT_SUMS)]


def test_points_are_observed_anew_at_another_resolution(backend: Backend) -> None:
    views, points = ring_of_views(3), np.random.default_rng(0).normal(0, 0.3, (50, 3)).astype(np.float32)
    small = [view.resized(view.width // 2, view.height // 2) for view in views]
    targets = PointTargets(backend, observe(views, points), points)
    DepthSupervision(backend, targets, Decay(1, 1, 1)).set_views(small)
    np.testing.assert_array_equal(backend.download(targets.pixels), observe(small, points).pixels)
    assert 0 <= int(targets.pixels.min()) <= int(targets.pixels.max()) < small[0].width * small[0].height
