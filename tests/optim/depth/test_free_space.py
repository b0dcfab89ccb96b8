"""Penalty of opacity in free space: gradients against the reference, and that against central differences."""

from dataclasses import replace

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.optim.depth.free_space import FreeSpaceLoss
from splat_cli.render.project_backward import Update, project_backward
from splat_cli.scene.points.observations import Observations
from tests.compare import BACKWARD, Comparison
from tests.reference import blend, free_space, project
from tests.reference.pipeline import central_difference
from tests.reference.project import Options
from tests.reference.random_scene import Scene, hard_scene, without_ties
from tests.render.on_device import OnDevice, blend_backward_of_noise, by_parameter, on_device

WEIGHT = 50.0


def some_points(scene: Scene) -> tuple[np.ndarray, np.ndarray]:
    """Pixels far enough from where a splat enters or leaves them, and depths."""
    rng, camera = np.random.default_rng(0), scene.camera
    flat = project.forward(scene.splats, camera, Options()).flat()
    margin = blend.forward(flat, np.zeros(3), camera.width, camera.height).margin
    steady = np.flatnonzero((margin > 0.01).all(axis=0) if margin.ndim == 3 else margin > 0.01)
    pixels = rng.choice(steady, min(60, len(steady)), replace=False)
    return pixels.astype(np.int32), rng.uniform(2, 9, len(pixels))


def test_reference_against_central_differences() -> None:
    scene = without_ties(hard_scene(1, num=72))
    pixels, depths = some_points(scene)
    layers = np.array([2.0, 3.5, 6.0])

    def loss_of(**changes: np.ndarray) -> float:
        splats = replace(scene.splats, **changes)
        return free_space.loss_and_gradients(splats, scene.camera, pixels, depths, layers, WEIGHT)[0]

    _, gradients = free_space.loss_and_gradients(scene.splats, scene.camera, pixels, depths, layers, WEIGHT)
    rng = np.random.default_rng(0)
    for name in ("log_scales", "quats", "logit_opacities"):  # positions carry splats across layers
        at, gradient = getattr(scene.splats, name), getattr(gradients, name)
        direction = rng.normal(size=at.shape) / np.sqrt(at.size)
        expected = central_difference(lambda moved, name=name: loss_of(**{name: moved}), at, direction)
        assert float((gradient * direction).sum()) == pytest.approx(expected, rel=1e-4, abs=1e-6)


def penalized(backend: Backend, scene: Scene) -> tuple[OnDevice, FreeSpaceLoss, np.ndarray, np.ndarray]:
    """The second of two views sees points, the first none; gradients of colours are random."""
    device = on_device(backend, scene, Options())
    penalty = FreeSpaceLoss(backend, device.cameras.views, np.zeros((0, 3), np.float32), WEIGHT)
    pixels, depths = some_points(scene)
    penalty.observe(Observations(np.array([0, 0, len(pixels)], np.int32), pixels, (1 / depths).astype(np.float32)))
    blend_backward_of_noise(device, seed=1, scale=0.01)
    return device, penalty, pixels, depths


@pytest.mark.parametrize("seed", [1, 2])
def test_gradients(backend: Backend, comparison: Comparison, seed: int) -> None:
    """The difference that the penalty makes to the gradients by raw parameters."""
    scene = hard_scene(seed)
    device, penalty, pixels, depths = penalized(backend, scene)
    results = []
    for penalize in (False, True):
        if penalize:
            penalty.accumulate(device.splats, device.state, device.rasterizer, None)
        d_params = backend.xp.zeros_like(device.splats.params)
        update = Update(d_params=d_params)
        project_backward(device.splats, device.cameras, device.state, False, device.projection, update)
        results.append(by_parameter(device.download(d_params), scene.splats.num))
    layers = device.download(penalty.layers)
    assert len(np.unique(layers)) == 3
    assert all(np.abs(free_space.REACH * depths - layer).min() < 1e-5 for layer in layers)
    _, expected = free_space.loss_and_gradients(scene.splats, scene.camera, pixels, depths + 1e-6, layers, WEIGHT)
    for name in ("means", "log_scales", "quats", "logit_opacities", "sh0"):
        actual = getattr(results[1], name) - getattr(results[0], name)
        comparison.check("free_space_backward", name, actual, getattr(expected, name), 20 * BACKWARD)


def test_a_view_without_points_stays_as_it_is(backend: Backend) -> None:
    device, penalty, _, _ = penalized(backend, hard_scene(1))
    device.state.write(view=0)
    device.forward()
    rows = np.flatnonzero(device.visible())
    before = device.download(device.projection.d_splats)[rows]
    penalty.accumulate(device.splats, device.state, device.rasterizer, None)
    assert not device.download(penalty.layers).any()
    np.testing.assert_array_equal(device.download(device.projection.d_splats)[rows], before)
