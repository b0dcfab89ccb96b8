"""Forward and backward pass from parameters to the loss, against the references and central differences."""

from dataclasses import replace

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.joint.loss import PhotometricLoss
from splat_cli.render.project import Update
from tests.compare import BACKWARD, FORWARD, Comparison
from tests.reference import pipeline
from tests.reference.inputs import Splats
from tests.reference.project import Options
from tests.reference.random_scene import Scene, without_ties
from tests.render.on_device import OnDevice, by_parameter, on_device, view_of
from tests.views import render_view

SSIM_WEIGHT = 0.2


def differentiate(device: OnDevice, num: int) -> tuple[float, Splats]:
    """Loss of the scene on the device, and its gradients with respect to the raw parameters."""
    loss = PhotometricLoss(device.backend, device.cameras, SSIM_WEIGHT)
    rendered = device.rasterizer.rendered
    device.forward()
    loss.forward(device.state, rendered.image)
    loss.backward(device.state, rendered.image, rendered.d_image)
    d_params = device.backend.xp.zeros_like(device.splats.params)
    device.backward(Update(d_params=d_params))
    return float(device.state.read()["loss"]), by_parameter(device.download(d_params), num)


def test_gradients(backend: Backend, comparison: Comparison, scene: Scene, options: Options) -> None:
    value, actual = differentiate(on_device(backend, scene, options, masked=True), scene.splats.num)
    expected_value, expected = pipeline.loss_and_gradients(scene, options, SSIM_WEIGHT, scene.mask)
    comparison.check("whole pipeline", "loss", np.array([value]), np.array([expected_value]), FORWARD)
    for name, values in expected.splats.items():
        comparison.check("whole pipeline", f"d {name}", getattr(actual, name), values, BACKWARD)


def test_central_differences(backend: Backend, comparison: Comparison, scene: Scene, options: Options) -> None:
    """Gradients within 1 % of the slope of the reference's loss, along the steepest and along random directions."""
    scene = without_ties(scene)
    _, gradients = differentiate(on_device(backend, scene, options, masked=True), scene.splats.num)
    rng = np.random.default_rng(0)
    for name, values in scene.splats.items():
        gradient = getattr(gradients, name)

        def function(moved: np.ndarray, name: str = name) -> float:
            moved_scene = replace(scene, splats=replace(scene.splats, **{name: moved}))
            return pipeline.loss(moved_scene, options, SSIM_WEIGHT, scene.mask)

        directions = [np.zeros(values.shape) for _ in range(4)]
        for direction, index in zip(directions, np.argsort(-np.abs(gradient), axis=None), strict=False):
            direction.flat[index] = 1
        # The gradient times random factors: all splats contribute and hardly cancel each other.
        directions += [gradient * rng.uniform(0.5, 1.5, values.shape) / np.abs(gradient).max() for _ in range(2)]
        actual = np.array([(gradient * direction).sum() for direction in directions])
        slopes = np.array([pipeline.central_difference(function, values, direction) for direction in directions])
        comparison.check("central differences", f"d {name}", actual, slopes, 1e-2)


@pytest.mark.parametrize("antialias", [False, True])
def test_render_view(backend: Backend, scene: Scene, antialias: bool) -> None:
    """The function that commands call: one image of one view, with as much memory as it needs."""
    device = on_device(backend, scene, Options())
    view, background = view_of(scene.camera), scene.background
    picture = render_view(backend, device.splats, view, background, antialias)
    options = Options(antialias=antialias)
    expected = pipeline.render(scene.splats, scene.camera, background, options).blended
    decided = expected.margin > 1e-3
    np.testing.assert_allclose(np.moveaxis(picture, -1, 0)[:, decided], expected.image[:, decided], atol=1e-4)
