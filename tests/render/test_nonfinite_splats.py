"""Splats with non-finite parameters are invisible and do not change results of other splats."""

from dataclasses import replace

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.render.project import Update
from tests.reference.inputs import Splats
from tests.reference.project import Options
from tests.reference.random_scene import POISONS, Scene, poisons
from tests.render.on_device import OnDevice, by_parameter, on_device


def gradients(device: OnDevice, scene: Scene) -> Splats:
    """Gradients of the raw parameters, for random gradients of the image that `device` has rendered."""
    device.set_d_image(np.random.default_rng(0).normal(size=(3, scene.camera.height, scene.camera.width)))
    d_params = device.backend.xp.zeros_like(device.splats.params)
    device.backward(Update(d_params=d_params))
    return by_parameter(device.download(d_params), device.splats.num)


def poisoned(scene: Scene, rows: slice) -> Scene:
    """The scene with poisoned splats before and after its own."""
    bad = poisons(0, scene.camera)[rows]
    return replace(scene, splats=Splats.concatenate([bad, scene.splats, bad]))


def test_poisoned_splats_do_not_affect_others(backend: Backend, scene: Scene, options: Options) -> None:
    clean = on_device(backend, scene, options)
    clean.forward()
    device = on_device(backend, poisoned(scene, slice(None)), options)
    device.forward()
    np.testing.assert_array_equal(device.image(), clean.image())

    own = slice(len(POISONS), len(POISONS) + scene.splats.num)
    actual, expected = gradients(device, scene)[own], gradients(clean, scene)
    for name, values in expected.items():
        # The order in which a GPU adds floats is not fixed.
        np.testing.assert_allclose(getattr(actual, name), values, rtol=1e-3, atol=1e-4 * np.abs(values).max())


@pytest.mark.parametrize("poison", POISONS)
def test_poison_is_invisible(backend: Backend, scene: Scene, poison: str) -> None:
    row = list(POISONS).index(poison)
    device = on_device(backend, poisoned(scene, slice(row, row + 1)), Options())
    device.forward()
    visible = device.visible()
    assert not visible[0]
    assert not visible[-1]
    assert visible.any()


def test_zero_quaternion_is_the_identity(backend: Backend, scene: Scene, options: Options) -> None:
    """Results are the same as with the identity, except for the gradient of the quaternion."""
    images, means = [], []
    for quat in ([0.0, 0, 0, 0], [1.0, 0, 0, 0]):
        quats = np.tile(quat, (scene.splats.num, 1))
        device = on_device(backend, replace(scene, splats=replace(scene.splats, quats=quats)), options)
        device.forward()
        images.append(device.image())
        result = gradients(device, scene)
        means.append(result.means)
        assert all(np.isfinite(gradient).all() for _, gradient in result.items())
    np.testing.assert_array_equal(*images)
    np.testing.assert_allclose(*means, rtol=1e-3, atol=1e-4 * np.abs(means[0]).max())
