"""Numbers that begin_step sets for Adam: bias corrections and learning rates, against float64."""

import numpy as np
import pytest

from splat_cli.device import Backend
from splat_cli.render.iter_state import LEARNING_RATES, IterState
from splat_cli.train.schedule import SCHEDULE_DTYPE

MAX_STEPS, DECAY_START, DECAY = 1000, 400, 0.1
FIRST, FINAL = 2e-3, 5e-5
RATES = {
    "log_scales": 5e-3,
    "quats": 1e-3,
    "opacities": 0.05,
    "sh0": 2e-3,
    "shN": 1e-4,
    "field": 0.01,
    "field_features": 0.02,
}


def state_of(backend: Backend, step: int) -> np.ndarray:
    """The state after begin_step of this step."""
    row = np.zeros((), SCHEDULE_DTYPE)
    row["lr_means"], row["lr_means_final"], row["lr_decay"], row["lr_decay_start"] = FIRST, FINAL, DECAY, DECAY_START
    row["max_steps"], row["sh_degree_interval"], row["order_length"] = MAX_STEPS, 1, 1
    for name, rate in RATES.items():
        row[f"lr_{name}"] = rate
    schedule = backend.upload(np.frombuffer(row.tobytes(), np.uint8).copy())
    state = IterState(backend, step=step - 1)
    kernel = backend.kernel("optim/begin_step", "begin_step")
    kernel((1,), (1,), state.array, schedule, backend.upload(np.zeros(1, np.int32)))
    return state.read()


@pytest.mark.parametrize("step", [1, 2, 7, 100, 30_000])
def test_bias_corrections_are_those_of_the_step(backend: Backend, step: int) -> None:
    """Kingma and Ba 2015, algorithm 1: the first step divides by 1 - beta."""
    state = state_of(backend, step)
    assert state["inv_bias1"] == pytest.approx(1 / (1 - 0.9**step), rel=1e-5)
    assert state["inv_root_bias2"] == pytest.approx((1 - 0.999**step) ** -0.5, rel=1e-5)


@pytest.mark.parametrize("step", [1, 250, 400, 401, 700, 1000, 1500])
def test_rates_decay_log_linearly(backend: Backend, step: int) -> None:
    """Positions over the whole run, the others from DECAY_START on; all stay at their last value after MAX_STEPS."""
    rates = dict(zip(LEARNING_RATES, state_of(backend, step)["lr"], strict=True))
    progress = min(step / MAX_STEPS, 1)
    late = np.clip((step - DECAY_START) / (MAX_STEPS - DECAY_START), 0, 1)
    assert rates.pop("means") == pytest.approx(FIRST * (FINAL / FIRST) ** progress, rel=1e-5)
    assert rates == pytest.approx({name: rate * DECAY**late for name, rate in RATES.items()}, rel=1e-5)
