"""3D smoothing filter: kernels and host against the reference, the reference against central differences."""

from dataclasses import replace

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.gaussians.splats import Splats
from splat_cli.render.project import Update, update_smooth_3d_sigmas
from tests.compare import BACKWARD, FORWARD, Comparison
from tests.reference import pipeline, smooth_3d
from tests.reference.project import Options
from tests.reference.random_scene import Scene, hard_scene, without_ties
from tests.render.on_device import OnDevice, by_parameter, on_device


def some_sigmas(num: int) -> np.ndarray:
    """Filter widths: some as large as splats, some small, some 0."""
    return np.random.default_rng(5).choice([0, 1e-3, 0.03, 0.2], num).astype(np.float32).astype(float)


def test_reference_against_central_differences() -> None:
    scene = without_ties(hard_scene(1, num=72))
    sigmas, options = some_sigmas(scene.splats.num), Options(antialias=True)

    def smoothed(**changes: np.ndarray) -> Scene:
        return replace(scene, splats=smooth_3d.forward(replace(scene.splats, **changes), sigmas))

    _, gradients = pipeline.loss_and_gradients(smoothed(), options, 0.2)
    actual = smooth_3d.backward(scene.splats, sigmas, gradients.splats)
    rng = np.random.default_rng(0)
    for name in ("log_scales", "logit_opacities", "means"):
        at = getattr(scene.splats, name)
        for _ in range(3):
            direction = rng.normal(size=at.shape) / np.sqrt(at.size)
            expected = pipeline.central_difference(
                lambda moved, name=name: pipeline.loss(smoothed(**{name: moved}), options, 0.2), at, direction
            )
            slope = float((getattr(actual, name) * direction).sum())
            assert slope == pytest.approx(expected, rel=1e-5, abs=1e-6 * np.linalg.norm(getattr(actual, name)))


def with_sigmas(backend: Backend, scene: Scene, options: Options) -> tuple[OnDevice, np.ndarray]:
    device = on_device(backend, scene, options)
    sigmas = some_sigmas(scene.splats.num)
    padded = np.zeros((1, device.splats.capacity), np.float32)
    padded[0, : len(sigmas)] = sigmas
    device.splats.smooth_3d_sigmas = backend.upload(padded)
    return device, sigmas


def test_picture_and_gradients(backend: Backend, comparison: Comparison, scene: Scene, options: Options) -> None:
    """The image equals that of smoothed splats; gradients of raw splats follow from gradients of smoothed splats."""
    device, sigmas = with_sigmas(backend, scene, options)
    held = replace(scene, splats=smooth_3d.forward(scene.splats, sigmas))
    plain = on_device(backend, held, options)
    d_image = np.random.default_rng(0).normal(size=(3, scene.camera.height, scene.camera.width))
    planes = []
    for one in (device, plain):
        one.forward()
        one.set_d_image(d_image)
        d_params = backend.xp.zeros_like(one.splats.params)
        one.backward(Update(d_params=d_params))
        planes.append(by_parameter(one.download(d_params), scene.splats.num))
    np.testing.assert_allclose(device.image(), plain.image(), atol=2e-4)
    expected = smooth_3d.backward(scene.splats, sigmas, planes[1])
    visible = device.visible()
    np.testing.assert_array_equal(visible, plain.visible())
    for name, values in expected.items():
        comparison.check("smooth_backward", name, getattr(planes[0], name)[visible], values[visible], 5 * BACKWARD)


def test_regularizers_apply_to_raw_splats(backend: Backend) -> None:
    device, _ = with_sigmas(backend, hard_scene(1), Options())
    device.forward()
    device.set_d_image(np.zeros((3, hard_scene(1).camera.height, hard_scene(1).camera.width)))
    d_params = backend.xp.zeros_like(device.splats.params)
    device.backward(Update(d_params=d_params, scale_reg=2.0))
    actual, scene = by_parameter(device.download(d_params), device.splats.num), hard_scene(1)
    np.testing.assert_allclose(actual.log_scales, 2 * np.exp(scene.splats.log_scales) / scene.splats.means.size, 1e-5)


def test_sigmas_follow_the_sampling_of_the_views(backend: Backend, comparison: Comparison, scene: Scene) -> None:
    device, _ = with_sigmas(backend, scene, Options())
    update_smooth_3d_sigmas(device.splats, device.cameras, 0.3)
    camera = scene.camera
    larger = replace(camera, width=2 * camera.width, height=2 * camera.height)
    expected = smooth_3d.sigmas(scene.splats.means, [larger, camera], 0.3)
    actual = device.download(device.splats.smooth_3d_sigmas)[0, : scene.splats.num]
    np.testing.assert_array_equal(actual > 0, expected > 0)
    comparison.check("smooth_3d_sigmas", "sigmas", actual, expected, FORWARD)


@pytest.mark.parametrize("place", [(0, 9, 3), (0, -9, 3), (9, 0, 3), (-9, 0, 3), (0, 0, -3), (0, 0, 3)], ids=str)
def test_splats_outside_all_views_have_no_sigma(backend: Backend, place: tuple[int, int, int]) -> None:
    """place: in the camera's axes. Only the last one is in the picture."""
    scene = hard_scene(1)
    w2c = scene.camera.w2c
    means = scene.splats.means.copy()
    means[0] = (np.array(place) - w2c[:3, 3]) @ w2c[:3, :3]
    device, _ = with_sigmas(backend, replace(scene, splats=replace(scene.splats, means=means)), Options())
    update_smooth_3d_sigmas(device.splats, device.cameras, 0.3)
    assert (device.download(device.splats.smooth_3d_sigmas)[0, 0] > 0) == (place == (0, 0, 3))


def test_host_splats_are_smoothed(backend: Backend) -> None:
    """Some opacities and scales are at the limits of float32."""
    device, sigmas = with_sigmas(backend, hard_scene(2), Options())
    host = device.splats.to_arrays()
    expected = smooth_3d.forward(hard_scene(2).splats, sigmas)
    np.testing.assert_allclose(host.log_scales, expected.log_scales, rtol=1e-5, atol=1e-5)
    some = sigmas > 0
    np.testing.assert_allclose(host.logit_opacities[some], expected.logit_opacities[some], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(host.logit_opacities[~some], hard_scene(2).splats.logit_opacities[~some])

    host.logit_opacities[:4] = [100, -100, 20, 0]
    host.log_scales[:4] = [[-90] * 3, [-90] * 3, [90] * 3, [0, -90, 90]]
    extreme = Splats.from_arrays(backend, host)
    extreme.smooth_3d_sigmas = backend.xp.full((1, len(host)), 0.1, "float32")
    for array in extreme.to_arrays().arrays().values():
        assert np.isfinite(array).all()
