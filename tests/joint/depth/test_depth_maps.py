"""Supervision by depth maps: fits and gradients against the reference, the reference against central differences."""

from dataclasses import replace

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.joint.depth.supervision import PASSES, DepthSupervision, MapTargets
from splat_cli.joint.joint_model import Decay
from splat_cli.render.project import Update
from splat_cli.scene.depth_maps import DepthMap, DepthMaps
from tests.compare import BACKWARD, Comparison
from tests.reference import blend, depth, depth_maps, project
from tests.reference.pipeline import central_difference
from tests.reference.project import Options
from tests.reference.random_scene import Scene, hard_scene, without_ties
from tests.render.on_device import VIEW, OnDevice, blend_backward_of_noise, by_parameter, on_device

WEIGHT = 0.7


def blended(scene: Scene) -> np.ndarray:
    """Inverse of the expected depths [H, W] of the scene, by the reference; 0 where it is transparent."""
    flat = depth.inverse_depths(project.forward(scene.splats, scene.camera, Options()))
    return depth_maps.inverse_depths(blend.forward(flat, np.zeros(3), scene.camera.width, scene.camera.height).image)


def map_of(scene: Scene, relative: bool, seed: int = 0) -> DepthMap:
    """A map at half resolution, with holes: the scene's depths with small errors in some pixels, large ones in others.

    relative: with unknown scale and shift."""
    rng = np.random.default_rng(seed)
    inverse = blended(scene)[::2, ::2]
    inverse = np.where(inverse > 0, inverse, inverse.max() / 2) * rng.choice([0.6, 0.99, 1.5], inverse.shape)
    inverse = 3.0 * inverse + 0.5 if relative else inverse
    inverse[rng.random(inverse.shape) < 0.2] = 0
    confidence = rng.choice([0.0, 0.5, 1.0], inverse.shape)
    found = DepthMap.of(inverse, confidence, relative)
    assert found is not None
    return found


def supervised(
    backend: Backend, scene: Scene, relative: bool, masked: bool = False
) -> tuple[OnDevice, MapTargets, DepthSupervision, DepthMap]:
    """Only the second of two views has a map; gradients of colours are random."""
    device, depth_map = on_device(backend, scene, Options(), masked), map_of(scene, relative)
    targets = MapTargets(backend, DepthMaps([None, depth_map]))
    supervision = DepthSupervision(backend, targets, Decay(WEIGHT, WEIGHT, 100))
    supervision.resize(device.splats.capacity)
    blend_backward_of_noise(device, seed=1, scale=0.01)
    return device, targets, supervision, depth_map


def sampled(scene: Scene, depth_map: DepthMap, masked: bool = False) -> tuple[np.ndarray, np.ndarray]:
    mask = scene.mask if masked else None
    values = depth_map.values.astype(float)
    return depth_maps.sample(values, depth_map.weights, mask, scene.camera.height, scene.camera.width)


@pytest.mark.parametrize("masked", [False, True], ids=["", "masked"])
@pytest.mark.parametrize("relative", [False, True], ids=["metric", "relative"])
def test_fit(backend: Backend, comparison: Comparison, relative: bool, masked: bool) -> None:
    scene = hard_scene(1)
    device, targets, supervision, depth_map = supervised(backend, scene, relative, masked)
    supervision.accumulate_gradients(device.splats, device.state, device.rasterizer)
    found = device.download(targets.fit)
    values, weights = sampled(scene, depth_map, masked)
    inverse = depth_maps.inverse_depths(device.image())
    scale = shift = depth_map.scale
    if relative:
        scale, shift = depth_maps.fit(values, weights, inverse, PASSES)
    expected = [scale, shift, 1 / depth_maps.total(values, weights, scale, shift)]
    comparison.check("fit_depth_map", "fit", found / expected, np.ones(3), 1e-3)
    assert found[0] > 0


@pytest.mark.parametrize("relative", [False, True], ids=["metric", "relative"])
def test_gradients(backend: Backend, comparison: Comparison, relative: bool) -> None:
    """Change of the gradients of raw parameters due to supervision; scale and shift are treated as constants."""
    scene = hard_scene(2)
    device, targets, supervision, depth_map = supervised(backend, scene, relative)
    num, xp = scene.splats.num, backend.xp
    results = []
    for supervise in (False, True):
        if supervise:
            supervision.accumulate_gradients(device.splats, device.state, device.rasterizer)
        d_params = xp.zeros_like(device.splats.params)
        device.update(
            Update(d_params=d_params),
        )
        results.append(by_parameter(device.download(d_params), num))
    values, weights = sampled(scene, depth_map)
    scale, shift, _ = device.download(targets.fit)

    def loss(image: np.ndarray) -> tuple[float, np.ndarray]:
        return depth_maps.loss(image[0], values, weights, scale, shift, WEIGHT)

    _, expected = depth.gradients_of(scene.splats, scene.camera, Options(), loss)
    for name in ("means", "log_scales", "quats", "logit_opacities", "sh0"):
        actual = getattr(results[1], name) - getattr(results[0], name)
        comparison.check("depth_map_loss", name, actual, getattr(expected, name), 20 * BACKWARD)


def test_reference_against_central_differences() -> None:
    scene = without_ties(hard_scene(1, num=72))
    depth_map = map_of(scene, relative=False)
    values, weights = sampled(scene, depth_map)

    def loss(image: np.ndarray) -> tuple[float, np.ndarray]:
        return depth_maps.loss(image[0], values, weights, depth_map.scale, depth_map.scale, WEIGHT)

    _, gradients = depth.gradients_of(scene.splats, scene.camera, Options(), loss)
    rng = np.random.default_rng(0)
    for name in ("means", "log_scales", "quats", "logit_opacities"):
        at = getattr(scene.splats, name)
        direction = rng.normal(size=at.shape) / np.sqrt(at.size)
        expected = central_difference(
            lambda moved, name=name: depth.gradients_of(
                replace(scene.splats, **{name: moved}), scene.camera, Options(), loss
            )[0],
            at,
            direction,
        )
        assert float((getattr(gradients, name) * direction).sum()) == pytest.approx(expected, rel=1e-3, abs=1e-6)


def test_scale_and_shift_are_found_among_outliers() -> None:
    """A tenth of the image is at half the map's depth: weights based on residuals exclude it."""
    rng = np.random.default_rng(0)
    inverse = rng.uniform(0.1, 1.0, (30, 40))
    values, truth = (inverse + 0.3) / (inverse + 0.3).mean(), (inverse + 0.3).mean()
    inverse[rng.random(values.shape) < 0.1] *= 2
    ones = np.ones_like(values)
    plain, robust = (depth_maps.fit(values, ones, inverse, passes)[0] / truth for passes in (1, PASSES))
    assert abs(robust - 1) < 0.02 < 0.05 < abs(plain - 1)


def test_a_view_without_a_map_has_no_depth_loss(backend: Backend) -> None:
    scene = hard_scene(1)
    device, targets, supervision, depth_map = supervised(backend, scene, relative=True)
    none = MapTargets(backend, DepthMaps([depth_map, None]))
    supervision.targets = none
    before = device.download(device.projection.d_splats).copy()
    visible = device.visible()
    supervision.accumulate_gradients(device.splats, device.state, device.rasterizer)
    after = device.download(device.projection.d_splats)
    np.testing.assert_array_equal(before[: len(visible)][visible], after[: len(visible)][visible])
    assert device.download(none.fit)[2] == 0
    assert not device.download(device.projection.d_means)[:, : len(visible)][:, visible].any()
    assert VIEW == 1
    assert targets is not none


def test_flat_relative_maps_are_ignored(backend: Backend) -> None:
    """The scale of a constant map cannot be fitted."""
    scene = hard_scene(1)
    device, _, supervision, _ = supervised(backend, scene, relative=True)
    flat = DepthMap.of(np.ones((5, 7)), relative=True)
    targets = MapTargets(backend, DepthMaps([None, flat]))
    supervision.targets = targets
    supervision.accumulate_gradients(device.splats, device.state, device.rasterizer)
    assert device.download(targets.fit)[2] == 0
