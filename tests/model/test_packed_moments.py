"""Adam with both moments packed as bfloat16, against its reference: equal except for unbiased rounding."""

import numpy as np
import pytest

from splat_cli.device import Backend, open_backend
from splat_cli.model.model import Moments
from splat_cli.render.project_backward import Update
from splat_cli.run.checkpoints.state import capture_state, restore_state
from tests.compare import BACKWARD, Comparison
from tests.model.test_adam import RATE_OF_ROW, STEP, prepared
from tests.noise_trainer import noise_trainer
from tests.reference import adam as reference

ULP = 2.0**-7  # maximum unit in the last place of bfloat16, relative to the value


def pack(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Packs two float32 arrays, rounded towards zero, into words stored as float32."""
    low, high = first.view(np.uint32) >> 16, second.view(np.uint32) & 0xFFFF0000
    return (high | low).view(np.float32)


def unpack(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    bits = np.ascontiguousarray(words).view(np.uint32)
    return (bits << 16).view(np.float32), (bits & 0xFFFF0000).view(np.float32)


@pytest.mark.parametrize("reference_size", [0.0, 0.05], ids=["world", "own axes"])
def test_packed_adam(backend: Backend, comparison: Comparison, reference_size: float) -> None:
    device, apart = prepared(backend, reference_size)
    moments, num = Moments(device.splats, packed=True), device.splats.num
    words = pack(*(backend.download(plane) for plane in apart.pair()))
    moments.first[...] = backend.upload(words)
    before = device.download(device.splats.params)[:, :num]
    device.forward()
    device.set_d_image(np.random.default_rng(1).normal(0, 1.0, device.image().shape))
    d_params = backend.xp.zeros_like(device.splats.params)
    device.backward(Update(d_params=d_params))
    device.forward()
    device.backward(Update(moments1=moments.first))

    first, second = (plane[:, :num].astype(float) for plane in unpack(words))
    grads = device.download(d_params)[:, :num]
    if reference_size:
        expected = reference.step_along_axes(before, grads, first, second, RATE_OF_ROW, STEP, reference_size)
    else:
        expected = reference.step(before, grads, first, second, RATE_OF_ROW, STEP)
    moved = device.download(device.splats.params)[:, :num] - before
    touched = reference.is_updated(device.visible(), len(grads))
    comparison.check("Adam, packed moments", "update", moved.T, np.where(touched, expected[0] - before, 0).T, BACKWARD)
    for actual, old, exact in zip(unpack(backend.download(moments.first)), (first, second), expected[1:], strict=True):
        np.testing.assert_array_equal(actual[:, :num][~touched], old[~touched])
        error = ((actual[:, :num] - exact) / np.maximum(np.abs(exact) * ULP, 1e-30))[touched]
        assert np.abs(error).max() < 1.01
        assert np.abs(error).mean() > 0.1
        assert abs(error.mean()) < 4 * error.std() / error.size**0.5


@pytest.mark.parametrize("visible_adam", [False, True])
def test_resumed_run_ends_with_the_same_bits(visible_adam: bool) -> None:
    backend = open_backend("cpu", threads=1)  # sums in a fixed order
    settings = {
        "steps": 40,
        "densify_start": 5,
        "densify_stop": 35,
        "densify_interval": 10,
        "score_views": 3,
        "noise_scale": 0.0,
        "moments": "bf16",
        "visible_adam": visible_adam,
    }
    whole, resumed = (noise_trainer(backend, 200, **settings) for _ in range(2))
    whole.run_until(25)
    checkpoint = capture_state(whole)
    checkpoint.arrays = {name: array.copy() for name, array in checkpoint.arrays.items()}
    assert checkpoint.arrays["moments"].shape == checkpoint.arrays["params"].shape
    assert np.isfinite(checkpoint.arrays["moments"]).all()
    whole.run_until(40)
    restore_state(resumed, checkpoint)
    resumed.run_until(40)
    for name, array in capture_state(whole).arrays.items():
        np.testing.assert_array_equal(capture_state(resumed).arrays[name], array)


def test_training_matches_moments_of_full_precision() -> None:
    backend = open_backend("cpu")
    losses = []
    for moments in ("float32", "bf16"):
        trainer = noise_trainer(backend, 300, steps=150, densify_start=1000, moments=moments, dropout=0.0)
        trainer.run_until(150)
        losses.append(float(trainer.loop.last["loss"]))
    assert losses[1] == pytest.approx(losses[0], rel=0.02)
