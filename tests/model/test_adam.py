"""Adam, fused with project_backward, against its reference."""

import functools

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.model.model import Moments
from splat_cli.render.project_backward import Update
from tests.compare import BACKWARD, Comparison
from tests.reference import adam as reference
from tests.reference.project import Options
from tests.reference.random_scene import hard_scene
from tests.render.on_device import OnDevice, blend_backward_of_noise, on_device

# Large, so that rounding of the parameters is small compared with their change.
RATES = np.array([10.0, 20.0, 3.0, 50.0, 7.0, 1.0])
ROWS_OF_RATE = [3, 3, 4, 1, 3, 45]
RATE_OF_ROW = np.repeat(RATES, ROWS_OF_RATE)
STEP = 7
REFERENCE_SIZE = 0.05  # size of a splat; the scene has smaller and larger ones


def prepared(backend: Backend, reference_size: float, rates: np.ndarray = RATES) -> tuple[OnDevice, Moments]:
    """A scene at step 7, with moments of earlier gradients."""
    device = on_device(backend, hard_scene(1), Options())
    device.state.write(step=STEP, inv_bias1=1 / (1 - 0.9**STEP), inv_root_bias2=(1 - 0.999**STEP) ** -0.5, lr=rates)
    device.state.write(reference_size=reference_size)
    rng, moments = np.random.default_rng(0), Moments(device.splats)
    moments.first[...] = backend.upload(rng.normal(0, 1e-2, moments.first.shape).astype(np.float32))
    moments.second[...] = backend.upload(rng.uniform(1e-6, 1e-3, moments.second.shape).astype(np.float32))
    return device, moments


def parameters(device: OnDevice, moments: Moments) -> list[np.ndarray]:
    """Parameters and both moments, float64 [rows, num]."""
    planes = (device.splats.params, moments.first, moments.second)
    return [device.download(plane)[:, : device.splats.num] for plane in planes]


def check(
    comparison: Comparison,
    kernel: str,
    before: list[np.ndarray],
    after: list[np.ndarray],
    grads: np.ndarray,
    touched: np.ndarray,
    reference_size: float,
    rates: np.ndarray,
) -> None:
    """Assert that elements outside of `touched`, bool [rows, num], keep their bits."""
    for planes_before, planes_after in zip(before, after, strict=True):
        kept = ~touched[: len(planes_before)]
        np.testing.assert_array_equal(planes_after[kept], planes_before[kept])
    step = (
        functools.partial(reference.step_along_axes, reference_size=reference_size)
        if reference_size
        else reference.step
    )
    moved = step(before[0], grads, before[1], before[2], np.repeat(rates, ROWS_OF_RATE), STEP)
    expected = [np.where(touched[: len(old)], new, old) for new, old in zip(moved, before, strict=True)]
    names = ("update", "first moment", "second moment")
    pairs = [(after[0] - before[0], expected[0] - before[0]), (after[1], expected[1]), (after[2], expected[2])]
    for name, (actual, value) in zip(names, pairs, strict=True):
        comparison.check(kernel, name, actual.T, value.T, BACKWARD)


@pytest.mark.parametrize("size", [1.0, 1e-8])
@pytest.mark.parametrize("dense", [True, False], ids=["dense", "sparse"])
@pytest.mark.parametrize("reference_size", [0.0, REFERENCE_SIZE], ids=["world", "own axes"])
def test_adam(backend: Backend, comparison: Comparison, dense: bool, size: float, reference_size: float) -> None:
    """View-dependent colours of invisible splats do not change; their other parameters change only if dense."""
    rates = RATES * [1, 1, 1, 1, 1, 1 / size]  # view-dependent colours have no momentum that moves them
    device, moments = prepared(backend, reference_size, rates)
    before, num = parameters(device, moments), device.splats.num
    device.forward()
    d_image = np.random.default_rng(1).normal(0, size, device.image().shape)
    device.set_d_image(d_image)
    d_params = backend.xp.zeros_like(device.splats.params)
    device.backward(Update(d_params=d_params))
    device.forward()
    update = Update(moments1=moments.first, moments2=moments.second, dense=dense)
    device.backward(update)

    grads, after = device.download(d_params)[:, :num], parameters(device, moments)
    touched = reference.is_updated(device.visible(), len(grads), dense)
    assert not touched.all()
    kernel = f"Adam, {'dense' if dense else 'sparse'}{', own axes' if reference_size else ''}"
    check(comparison, kernel, before, after, grads, touched, reference_size, rates)


def test_rays_of_an_earlier_update_are_not_read(backend: Backend) -> None:
    """A warp of splats that the view does not show leaves its rays as they were."""
    params = []
    for stale in (0.0, 1e3):
        device, moments = prepared(backend, REFERENCE_SIZE)
        device.splats.params[0, 32:64] = 1e6
        device.forward()
        assert not device.visible()[32:64].any()
        device.set_d_image(np.ones(device.image().shape))
        device.projection.d_splats[32:64] = stale
        device.backward(Update(moments1=moments.first, moments2=moments.second))
        params.append(device.download(device.splats.params)[:, : device.splats.num])
    np.testing.assert_allclose(params[1], params[0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("sh_degree", [0, 3])
def test_splats_with_unusable_gradients_keep_everything(backend: Backend, sh_degree: int) -> None:
    """One sum of blend_backward is too large for Adam: of the geometry, or of one channel of the colour."""
    device, moments = prepared(backend, REFERENCE_SIZE)
    device.state.write(sh_degree=sh_degree)  # with 0, gradients of colours do not reach the geometry
    blend_backward_of_noise(device)
    shown = device.visible() & (device.download(device.projection.colors)[: device.splats.num, :3] > 0).all(axis=1)
    rows = np.flatnonzero(shown)[:6]
    for row, column in zip(rows, (0, 1, 3, 6, 7, 8), strict=True):
        device.projection.d_splats[int(row), column] = 1e30
    before = parameters(device, moments)
    device.update(Update(moments1=moments.first, moments2=moments.second))
    after = parameters(device, moments)
    for planes_before, planes_after in zip(before, after, strict=True):
        np.testing.assert_array_equal(planes_after[:, rows], planes_before[:, rows])
    others = np.setdiff1d(np.flatnonzero(device.visible()), rows)
    assert (after[0] != before[0]).any(axis=0)[others].all()
    assert device.state.read()["skipped_updates"] == len(rows)
