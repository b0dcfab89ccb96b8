"""Dropout: the splats that a step drops, and the compensating opacities of the others, forward and backward."""

from dataclasses import replace

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.render.project import Update
from tests.reference.project import Options
from tests.reference.random_scene import Scene
from tests.render.on_device import OnDevice, by_parameter, on_device

SHARE = 0.3


def opacities_of(scene: Scene) -> np.ndarray:
    return 1 / (1 + np.exp(-scene.splats.logit_opacities))


@pytest.fixture
def faint(scene: Scene) -> Scene:
    """The scene with lower opacities, which stay below 1 when divided by 1 - SHARE."""
    faint = 0.6 * opacities_of(scene)
    return replace(scene, splats=replace(scene.splats, logit_opacities=np.log(faint / (1 - faint))))


@pytest.fixture
def device(backend: Backend, faint: Scene, options: Options) -> OnDevice:
    return on_device(backend, faint, options)


def visible(device: OnDevice, share: float, step: int) -> np.ndarray:
    device.state.clear_counts()
    device.state.write(step=step)
    device.rasterizer.forward(device.splats, device.state, share)
    return device.visible()


def test_each_step_drops_other_splats(device: OnDevice) -> None:
    everyone = visible(device, 0.0, 1)
    steps = np.array([visible(device, SHARE, step) for step in range(1, 30)])
    seen = steps[:, everyone].mean()
    assert abs(seen - (1 - SHARE)) < 4 * np.sqrt(SHARE * (1 - SHARE) / steps[:, everyone].size)
    assert steps[:, everyone].any(axis=0).all()
    assert len({row.tobytes() for row in steps}) == len(steps)
    np.testing.assert_array_equal(steps[4], visible(device, SHARE, 5))


def test_kept_splats_compensate_for_dropped_ones(
    backend: Backend, device: OnDevice, faint: Scene, options: Options
) -> None:
    """Image and gradients are those of a scene with only the kept splats, at larger opacities."""
    kept = visible(device, SHARE, 7)
    d_image = np.random.default_rng(0).normal(size=device.image().shape)
    image, gradients = device.image(), gradients_of(device, d_image, options)
    larger = np.where(kept, opacities_of(faint) / (1 - SHARE), 1e-4)
    other = on_device(
        backend, replace(faint, splats=replace(faint.splats, logit_opacities=np.log(larger / (1 - larger)))), options
    )
    other.forward()
    np.testing.assert_allclose(image, other.image(), atol=1e-5)
    expected = gradients_of(other, d_image, options)
    for name in ("means", "log_scales", "quats", "sh0"):
        wanted = getattr(expected, name)[kept]
        np.testing.assert_allclose(getattr(gradients, name)[kept], wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())
    by_opacity = expected.logit_opacities[kept] / (1 - larger[kept]) * (1 - opacities_of(faint)[kept])
    np.testing.assert_allclose(gradients.logit_opacities[kept], by_opacity, rtol=1e-3, atol=1e-3)
    assert not gradients.means[~kept].any()


def gradients_of(device: OnDevice, d_image: np.ndarray, options: Options):
    device.set_d_image(d_image)
    d_params = device.backend.xp.zeros_like(device.splats.params)
    device.backward(Update(d_params=d_params))
    return by_parameter(device.download(d_params), device.splats.num)
