"""Adam, fused with project_backward, against its reference."""

import functools

import numpy as np
import pytest

from splat_cli.device import Backend, DeviceArray
from splat_cli.model.model import zero_moments
from splat_cli.render.project import Update
from tests.compare import BACKWARD, Comparison
from tests.model.moments import set_moments, unpacked
from tests.reference import adam as reference
from tests.reference.project import Options
from tests.reference.random_scene import hard_scene
from tests.render.on_device import OnDevice, blend_backward_of_noise, on_device

# Large, so that rounding of the parameters is small compared with their change.
RATES = np.array([10.0, 20.0, 3.0, 50.0, 7.0, 1.0])
ROWS_OF_RATE = [3, 3, 4, 1, 3, 45]
RATE_OF_ROW = np.repeat(RATES, ROWS_OF_RATE)
STEP = 7
ULP = 2.0**-7  # maximum unit in the last place of bfloat16, relative to the value
REFERENCE_SIZE = 0.05  # size of a splat; the scene has smaller and larger ones


def prepared(backend: Backend, reference_size: float, rates: np.ndarray = RATES) -> tuple[OnDevice, DeviceArray]:
    """A scene at step 7, with moments of earlier gradients."""
    device = on_device(backend, hard_scene(1), Options())
    device.state.write(step=STEP, inv_bias1=1 / (1 - 0.9**STEP), inv_root_bias2=(1 - 0.999**STEP) ** -0.5, lr=rates)
    device.state.write(reference_size=reference_size)
    rng, moments = np.random.default_rng(0), zero_moments(device.splats)
    shape = moments.shape
    set_moments(backend, moments, rng.normal(0, 1e-2, shape), rng.uniform(1e-6, 1e-3, shape))
    return device, moments


def parameters(device: OnDevice, moments: DeviceArray) -> list[np.ndarray]:
    """Parameters and both moments, float64 [rows, num]."""
    num = device.splats.num
    words = device.backend.download(moments)[:, :num]
    return [device.download(device.splats.params)[:, :num], *unpacked(words)]


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
    """Assert that elements outside of `touched`, bool [rows, num], keep their bits; moments are rounded at random."""
    for planes_before, planes_after in zip(before, after, strict=True):
        kept = ~touched[: len(planes_before)]
        np.testing.assert_array_equal(planes_after[kept], planes_before[kept])
    step = (
        functools.partial(reference.step_along_axes, reference_size=reference_size)
        if reference_size
        else reference.step
    )
    moved = step(before[0], grads, before[1], before[2], np.repeat(rates, ROWS_OF_RATE), STEP, stored=after[2][11:])
    expected = [np.where(touched[: len(old)], new, old) for new, old in zip(moved, before, strict=True)]
    comparison.check(kernel, "update", (after[0] - before[0]).T, (expected[0] - before[0]).T, BACKWARD)
    for actual, exact in zip(after[1:], expected[1:], strict=True):
        check_rounding(actual[touched[: len(actual)]], exact[touched[: len(actual)]])


def check_rounding(actual: np.ndarray, exact: np.ndarray) -> None:
    """Assert that bfloat16 are rounded up or down, unbiased."""
    error = (actual - exact) / np.maximum(np.abs(exact) * ULP, 1e-30)
    assert (np.abs(error) < 1.01).mean() > 0.99  # others are differences of nearly equal float32
    error = error.clip(-1, 1)
    assert np.abs(error).mean() > 0.1
    assert abs(error.mean()) < 4 * error.std() / error.size**0.5


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
    update = Update(moments, dense=dense)
    device.backward(update)

    grads, after = device.download(d_params)[:, :num], parameters(device, moments)
    touched = reference.is_updated(device.visible(), len(grads), dense)
    assert not touched.all()
    kernel = f"Adam, {'dense' if dense else 'sparse'}{', own axes' if reference_size else ''}"
    check(comparison, kernel, before, after, grads, touched, reference_size, rates)


def test_moments_round_differently_in_each_step_row_and_half(backend: Backend) -> None:
    """All moments are 1, without gradients, so only random bits differ."""
    rounded = []
    for step in (STEP, STEP + 1):
        device, moments = prepared(backend, REFERENCE_SIZE)
        device.state.write(step=step)
        set_moments(backend, moments, *np.ones((2, *moments.shape)))
        device.forward()
        device.set_d_image(np.zeros(device.image().shape))
        device.backward(Update(moments, dense=True))
        rounded += parameters(device, moments)[1:]
    halves = np.array([half > mean for half, mean in zip(rounded, (0.9, 0.999) * 2, strict=True)], float)
    rows, columns = halves.reshape(-1, halves.shape[-1]), halves.reshape(len(halves), -1)
    limit = 5 / rows.shape[1] ** 0.5, 5 / columns.shape[1] ** 0.5
    for samples, most in zip((rows, columns), limit, strict=True):
        assert np.abs(np.corrcoef(samples) - np.eye(len(samples))).max() < most


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
        device.backward(Update(moments))
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
    device.update(Update(moments))
    after = parameters(device, moments)
    for planes_before, planes_after in zip(before, after, strict=True):
        np.testing.assert_array_equal(planes_after[:, rows], planes_before[:, rows])
    others = np.setdiff1d(np.flatnonzero(device.visible()), rows)
    assert (after[0] != before[0]).any(axis=0)[others].all()
    assert device.state.read()["skipped_updates"] == len(rows)
