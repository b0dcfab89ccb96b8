"""project and project_backward against their references."""

from dataclasses import replace

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.render.project import Update, project
from tests.compare import BACKWARD, FORWARD, Comparison
from tests.reference import project as reference
from tests.reference import project_backward as reference_backward
from tests.reference.project import Options
from tests.reference.random_scene import Scene, hard_scene
from tests.render.on_device import OnDevice, blend_backward_of_noise, by_parameter, on_device, projected_gradients


def check_forward(comparison: Comparison, device: OnDevice, scene: Scene, options: Options) -> None:
    project(device.splats, device.cameras, device.state, options.antialias, device.projection)
    expected = reference.forward(scene.splats, scene.camera, options)
    np.testing.assert_array_equal(device.visible(), expected.visible)
    rows, kernel = np.flatnonzero(expected.visible), "project"
    for name, actual in device.projected(rows).items():
        comparison.check(kernel, name, actual, getattr(expected, name)[rows], FORWARD)


def test_project(backend: Backend, comparison: Comparison, scene: Scene, options: Options) -> None:
    check_forward(comparison, on_device(backend, scene, options), scene, options)


def test_project_upside_down_in_several_blocks(backend: Backend, comparison: Comparison) -> None:
    """In the other scenes, splats outside of the picture lie to its right and below; here to its left and above."""
    scene = hard_scene(4, num=600)
    turned = np.diag([-1.0, -1.0, 1.0, 1.0]) @ scene.camera.w2c
    scene = replace(scene, camera=replace(scene.camera, w2c=turned))
    check_forward(comparison, on_device(backend, scene, Options()), scene, Options())


def test_nothing_is_projected_or_updated_after_an_overflow(backend: Backend, scene: Scene) -> None:
    device = on_device(backend, scene, Options())
    blend_backward_of_noise(device)
    d_params = device.backend.xp.zeros_like(device.splats.params)
    device.state.write(overflowed=1)
    device.update(Update(d_params=d_params))
    project(device.splats, device.cameras, device.state, False, device.projection)
    assert not d_params.any()
    assert not device.projection.tile_counts.any()


@pytest.mark.parametrize("sh_degree", [0, 1, 2])
def test_project_with_lower_sh_degree(backend: Backend, comparison: Comparison, scene: Scene, sh_degree: int) -> None:
    """Tested with splats that store all SH coefficients, and with splats that store only the lower ones."""
    options = Options(sh_degree=sh_degree)
    check_forward(comparison, on_device(backend, scene, options), scene, options)
    fewer = replace(scene.splats, shN=scene.splats.shN[:, : (sh_degree + 1) ** 2 - 1])
    scene = replace(scene, splats=fewer)
    check_forward(comparison, on_device(backend, scene, options), scene, options)


@pytest.fixture(params=[3, 1], ids="degree{}".format)
def differentiated(
    backend: Backend, scene: Scene, options: Options, request: pytest.FixtureRequest
) -> tuple[OnDevice, Options]:
    """A scene after blend_backward of random image gradients, with the sums of absolute values."""
    options = replace(options, sh_degree=request.param)
    device = on_device(backend, scene, options)
    blend_backward_of_noise(device, absgrad=True)
    return device, options


def expected_gradients(device: OnDevice, scene: Scene, options: Options) -> tuple[reference.Splats, np.ndarray]:
    """Gradients of the raw parameters, and of means2d [N, 2], from the sums on the device."""
    projected, d_projected = projected_gradients(device, scene, options)
    gradients, _ = reference_backward.backward(scene.splats, scene.camera, options, projected, d_projected)
    return gradients, d_projected.means2d


def test_project_backward(comparison: Comparison, differentiated: tuple[OnDevice, Options], scene: Scene) -> None:
    device, options = differentiated
    d_params = device.backend.xp.zeros_like(device.splats.params)
    update = Update(d_params=d_params)
    device.update(update)
    actual = by_parameter(device.download(d_params), scene.splats.num)
    expected, _ = expected_gradients(device, scene, options)
    for name, values in expected.items():
        comparison.check("project_backward", name, getattr(actual, name), values, BACKWARD)


def test_regularisers(differentiated: tuple[OnDevice, Options], scene: Scene) -> None:
    """opacity_reg and scale_reg add gradients of the mean opacity and the mean scale, also to invisible splats."""
    device, _ = differentiated
    device.projection.d_splats[...] = 0
    d_params = device.backend.xp.zeros_like(device.splats.params)
    update = Update(d_params=d_params, opacity_reg=3.0, scale_reg=2.0)
    device.update(update)
    actual = by_parameter(device.download(d_params), scene.splats.num)
    opacities = 1 / (1 + np.exp(-scene.splats.logit_opacities))
    np.testing.assert_allclose(actual.logit_opacities, 3 * opacities * (1 - opacities) / scene.splats.num, rtol=1e-2)
    np.testing.assert_allclose(actual.log_scales, 2 * np.exp(scene.splats.log_scales) / scene.splats.means.size, 1e-5)
    assert not actual.means.any()


@pytest.mark.parametrize("absgrad", [False, True])
def test_statistics(
    comparison: Comparison, differentiated: tuple[OnDevice, Options], scene: Scene, absgrad: bool
) -> None:
    """Sums for densification: length of d means2d in half images, and number of views that see the splat."""
    device, options = differentiated
    xp, num = device.backend.xp, scene.splats.num
    stats = xp.ones((2, device.splats.capacity), "float32")
    update = Update(d_params=xp.zeros_like(device.splats.params), stats=stats, absgrad=absgrad)
    device.update(update)
    lengths, views = device.download(stats)[:, :num]
    if absgrad:
        gradients = device.download(device.projection.d_splats)[:num, 9:11]
        gradients[~device.visible()] = 0
    else:
        gradients = expected_gradients(device, scene, options)[1]
    half_image = np.array([scene.camera.width, scene.camera.height]) / 2
    expected, name = np.linalg.norm(gradients * half_image, axis=1), f"statistics{' (abs)' * absgrad}"
    comparison.check("project_backward", name, lengths - 1, expected, BACKWARD)
    np.testing.assert_array_equal(views, 1 + device.visible())
