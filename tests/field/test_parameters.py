"""Adam and gradient descent on flat arrays: against the reference, sparse, and with nonfinite gradients."""

from typing import Any

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.field.parameters import Parameters, adam_bias
from splat_cli.render.camera import CAMERA_DTYPE
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import BATCH_VIEW_BYTES
from tests.compare import BACKWARD, Comparison
from tests.reference import adam as reference

STEP, RATE = 5, 0.5


def prepared(backend: Backend, half: bool = False) -> tuple[Parameters, dict[str, np.ndarray], np.ndarray]:
    """Parameters at step 5, a copy of their arrays, and gradients, two thirds of them zero."""
    rng = np.random.default_rng(0)
    parameters = Parameters(backend, rng.normal(size=1001).astype(np.float32), half)
    num = len(parameters)
    before = {
        "values": rng.normal(size=num),
        "moments1": rng.normal(0, 1e-2, num),
        "moments2": rng.uniform(0, 1e-3, num),
    }
    before = {name: array.astype(np.float32) for name, array in before.items()}
    parameters.load(before)
    gradients = np.where(rng.random(num) < 0.3, rng.normal(size=num), 0).astype(np.float32)
    gradients[40:80] = 0
    parameters.gradients[...] = backend.upload(gradients)
    return parameters, before, gradients


def state_of(backend: Backend) -> IterState:
    return IterState(backend, lr=[0, RATE, 0, 0, 0, 0], **adam_bias(STEP))


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_adam(backend: Backend, comparison: Comparison, sparse: bool) -> None:
    parameters, before, gradients = prepared(backend, half=True)
    parameters.adam_flat(state_of(backend), 1, sparse)
    columns = [before[name].astype(float)[None] for name in ("values", "moments1", "moments2")]
    expected = reference.step(columns[0], gradients[None], columns[1], columns[2], np.array([RATE]), STEP)
    touched = (gradients != 0) | (not sparse)
    for name, start, value in zip(before, columns, expected, strict=True):
        actual = backend.download(getattr(parameters, name)).astype(float)
        np.testing.assert_array_equal(actual[~touched], before[name][~touched])
        comparison.check(
            "adam_flat",
            f"{name}, {'sparse' if sparse else 'dense'}",
            actual[touched] - start[0, touched],
            (value - start)[0, touched],
            BACKWARD,
        )
    assert not backend.download(parameters.gradients).any()
    values = backend.download(parameters.values)[touched]
    np.testing.assert_array_equal(backend.download(parameters.halves)[touched], values.astype(np.float16))


def batch_of(backend: Backend, *losses: float) -> Any:
    """`struct BatchView` of views with these losses, uint8 [B, bytes]."""
    views = np.zeros((len(losses), BATCH_VIEW_BYTES), np.uint8)
    views[:, CAMERA_DTYPE.itemsize :].view(np.float32)[:, 0] = losses
    return backend.upload(views)


def test_a_batch_moves_by_its_mean_gradient(backend: Backend, comparison: Comparison) -> None:
    """The rate is multiplied by sqrt(2), decay rates are squared (docs/training_loop.md), if all losses are finite."""
    parameters, before, gradients = prepared(backend)
    columns = [before[name].astype(float)[None] for name in ("values", "moments1", "moments2")]
    expected = reference.step(
        columns[0],
        gradients[None] / 2,
        columns[1],
        columns[2],
        np.array([RATE * 2**0.5]),
        STEP,
        0.9**2,
        0.999**2,
        bias_betas=(0.9, 0.999),
    )
    parameters.adam_flat(state_of(backend), 1, views=batch_of(backend, 1.0, 2.0))
    for name, start, value in zip(before, columns, expected, strict=True):
        moved = backend.download(getattr(parameters, name)).astype(float) - start[0]
        comparison.check("adam_flat", f"{name}, batch", moved, (value - start)[0], BACKWARD)
    after = backend.download(parameters.values)
    parameters.gradients[...] = 1
    parameters.adam_flat(state_of(backend), 1, views=batch_of(backend, 1.0, np.nan))
    np.testing.assert_array_equal(backend.download(parameters.values), after)
    assert not backend.download(parameters.gradients).any()


def test_gradient_descent(backend: Backend) -> None:
    parameters, before, gradients = prepared(backend)
    parameters.adam_flat(state_of(backend), 1, adam=False)
    np.testing.assert_allclose(backend.download(parameters.values), before["values"] - RATE * gradients, rtol=1e-6)


def test_nonfinite_gradients_are_skipped_and_counted(backend: Backend) -> None:
    parameters, before, _ = prepared(backend)
    bad = [1, 90, 700]
    parameters.gradients[1], parameters.gradients[90], parameters.gradients[700] = np.nan, np.inf, -1e30
    state = state_of(backend)
    parameters.adam_flat(state, 1)
    after = backend.download(parameters.values)
    np.testing.assert_array_equal(after[bad], before["values"][bad])
    assert (after[[0, 2, 3, 91]] != before["values"][[0, 2, 3, 91]]).all()
    assert np.isfinite(after).all()
    assert state.read()["skipped_updates"] == 3
    assert not backend.download(parameters.gradients).any()


def test_nothing_moves_in_a_halted_step_or_with_a_nonfinite_loss(backend: Backend) -> None:
    parameters, before, _ = prepared(backend)
    for state in (IterState(backend, overflowed=1, lr=[1] * 6), IterState(backend, loss_l1=np.nan, lr=[1] * 6)):
        parameters.adam_flat(state, 1)
        np.testing.assert_array_equal(backend.download(parameters.values), before["values"])
