"""Opacity in free space and its penalty, against the reference, and the reference against central differences."""

from dataclasses import replace

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.joint.depth.free_space import FreeSpaceRays
from splat_cli.render.project import RasterizationSettings, Update
from splat_cli.scene.points.observations import Observations
from tests.compare import BACKWARD, FORWARD, Comparison
from tests.reference import blend, free_space, project
from tests.reference.pipeline import central_difference
from tests.reference.project import Options
from tests.reference.random_scene import Scene, hard_scene, without_ties
from tests.render.on_device import VIEW, OnDevice, blend_backward_of_noise, by_parameter, on_device

WEIGHT = 50.0


def some_points(scene: Scene) -> tuple[np.ndarray, np.ndarray]:
    """Pixels far from the edges of splats, and depths whose free space ends far from any splat."""
    rng, camera = np.random.default_rng(0), scene.camera
    projected = project.forward(scene.splats, camera, Options())
    margin = blend.forward(projected.flat(), np.zeros(3), camera.width, camera.height).margin
    pixels = rng.choice(np.flatnonzero(margin > 0.01), 60, replace=False)
    depths = rng.uniform(2, 9, len(pixels))
    ends = projected.depths[projected.visible] / free_space.REACH
    steady = np.abs(ends[:, None] / depths - 1).min(axis=0) > 1e-4
    return pixels[steady].astype(np.int32), depths[steady]


def test_reference_against_central_differences() -> None:
    scene = without_ties(hard_scene(1, num=72))
    pixels, depths = some_points(scene)

    def loss_of(**changes: np.ndarray) -> float:
        return free_space.loss_and_gradients(replace(scene.splats, **changes), scene.camera, pixels, depths, WEIGHT)[0]

    gradients = free_space.loss_and_gradients(scene.splats, scene.camera, pixels, depths, WEIGHT)[2]
    rng = np.random.default_rng(0)
    for name in ("log_scales", "quats", "logit_opacities"):  # changes of positions move splats out of the free space
        at, gradient = getattr(scene.splats, name), getattr(gradients, name)
        direction = rng.normal(size=at.shape) / np.sqrt(at.size)
        expected = central_difference(lambda moved, name=name: loss_of(**{name: moved}), at, direction)
        assert float((gradient * direction).sum()) == pytest.approx(expected, rel=1e-4, abs=1e-6)


def penalized(
    backend: Backend, scene: Scene, more: int = 8
) -> tuple[OnDevice, FreeSpaceRays, np.ndarray, np.ndarray, slice]:
    """A scene, rays, and pixels, depths and range of the points of its view, the second of two.

    The first view sees `more` points in addition, and as many belong to no view. With 0, the first view sees none.
    Gradients of colours are random.
    """
    device = on_device(backend, scene, Options())
    pixels, depths = some_points(scene)
    num = len(pixels)
    own = slice(num + more, 2 * num + more) if more else slice(0, num)
    rows = np.concatenate([np.arange(own.start), np.arange(num), np.arange(more)]) % num
    begins, numbers = np.array([0, own.start, own.stop], np.int32), np.arange(len(rows), dtype=np.int32)
    seen = Observations(begins, pixels[rows], (1 / depths[rows]).astype(np.float32), numbers)
    blend_backward_of_noise(device, seed=1, scale=0.01)
    return device, FreeSpaceRays(backend, seen), pixels, depths, own


@pytest.mark.parametrize("seed", [1, 2])
def test_opacities_and_gradients(backend: Backend, comparison: Comparison, seed: int) -> None:
    """Change of the gradients of raw parameters due to the penalty."""
    scene = hard_scene(seed)
    device, rays, pixels, depths, own = penalized(backend, scene)
    _, opacities, expected = free_space.loss_and_gradients(scene.splats, scene.camera, pixels, depths, WEIGHT)
    assert (opacities > 0.1).sum() > 5
    actual_opacities = device.download(rays.opacities(device.state, device.rasterizer))
    comparison.check("free_space", "opacities", actual_opacities[own], opacities, FORWARD)
    assert np.count_nonzero(actual_opacities) == np.count_nonzero(actual_opacities[own])
    results = []
    for penalize in (False, True):
        if penalize:
            rays.add_splat_loss(device.state, device.rasterizer, WEIGHT)
        d_params = backend.xp.zeros_like(device.splats.params)
        update = Update(d_params=d_params)
        device.update(update)
        results.append(by_parameter(device.download(d_params), scene.splats.num))
    for name in ("means", "log_scales", "quats", "logit_opacities", "sh0"):
        actual = getattr(results[1], name) - getattr(results[0], name)
        comparison.check("free_space", name, actual, getattr(expected, name), 20 * BACKWARD)


def test_fixed_sums_equal_float_sums(backend: Backend) -> None:
    device, rays, *_ = penalized(backend, hard_scene(1))
    view, rows, sums = device.cameras.views[VIEW], device.visible(), []
    for deterministic in (False, True):
        settings = RasterizationSettings(training=True, deterministic=deterministic)
        device.rasterizer.settings = settings
        device.rasterizer.resize_splats(device.splats.capacity)
        device.forward()
        rays.add_splat_loss(device.state, device.rasterizer, WEIGHT)
        device.set_d_image(np.zeros((3, view.height, view.width)))
        device.rasterizer.backward_to_projection(device.splats, device.state, absgrad=False)
        sums.append(device.download(device.projection.d_splats)[: len(rows)][rows])
    assert (sums[0][:, 0] > 0).sum() > 5
    np.testing.assert_allclose(sums[1], sums[0], rtol=1e-3, atol=1e-6 * np.abs(sums[0]).max())


def test_a_view_without_points_does_not_change(backend: Backend) -> None:
    device, rays, *_ = penalized(backend, hard_scene(1), more=0)
    device.state.write(view=0)
    device.forward()
    rows = np.flatnonzero(device.visible())
    before = device.download(device.projection.d_splats)[rows]
    rays.add_splat_loss(device.state, device.rasterizer, WEIGHT)
    np.testing.assert_array_equal(device.download(device.projection.d_splats)[rows], before)
    assert not device.download(rays.opacities(device.state, device.rasterizer)).any()


def test_counts_of_rays(backend: Backend, comparison: Comparison) -> None:
    """Each splat is hit by its falloff at a ray: clear rays before the point, others there, and rays that end at it."""
    scene = hard_scene(1)
    device, rays, pixels, depths, own = penalized(backend, scene)
    clear = np.arange(len(rays.pixels)) % 3 > 0
    expected = free_space.counts(scene.splats, scene.camera, pixels, depths, clear[own])
    assert ((expected > 0.1).sum(axis=0) > 3).all()
    counts = backend.xp.zeros((device.splats.capacity, 3), "float32")
    for _ in range(2):  # they are added
        rays.count(device.state, device.rasterizer, backend.upload(clear.astype(np.int32)), counts)
    actual = device.download(counts)[: scene.splats.num]
    comparison.check("count_rays", "counts", actual, 2 * expected, FORWARD)
