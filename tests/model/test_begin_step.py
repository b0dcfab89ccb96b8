"""Values that begin_step sets: view and counters, bias corrections and learning rates, against float64."""

import numpy as np
import pytest

from splat_cli.device import Backend, DeviceArray
from splat_cli.render.camera import CameraTable
from splat_cli.render.iter_state import LEARNING_RATES, SEGMENT_BINS, IterState, copy_view_state
from splat_cli.render.project import BATCH_VIEW_BYTES
from splat_cli.train.schedule import SCHEDULE_DTYPE
from tests.views import ring_of_views

NUMBERS = ("num_large", "num_pairs", "loss_l1", "loss_l2", "loss_ssim")
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


def schedule_of(backend: Backend, num_views: int, **settings: float) -> DeviceArray:
    """A schedule of the rates above, for an order of so many views."""
    row = np.zeros((), SCHEDULE_DTYPE)
    row["lr_means"], row["lr_means_final"], row["lr_decay"], row["lr_decay_start"] = FIRST, FINAL, DECAY, DECAY_START
    row["max_steps"], row["order_length"] = MAX_STEPS, num_views
    row["sh_degree"], row["sh_degree_interval"] = 2, 10
    for name, rate in RATES.items():
        row[f"lr_{name}"] = rate
    for name, value in settings.items():
        row[name] = value
    return backend.upload(np.frombuffer(row.tobytes(), np.uint8).copy())


def state_of(backend: Backend, step: int, order: tuple[int, ...] = (0,), **settings: float) -> np.ndarray:
    """The state after begin_step of this step, which follows a view with losses and pairs."""
    schedule = schedule_of(backend, len(order), **settings)
    state = IterState(backend, step=step - 1, **dict.fromkeys(NUMBERS, 5), segments_in_bins=[5] * SEGMENT_BINS)
    kernel = backend.kernel("optim/begin_step", "begin_step")
    kernel((1,), (1,), state.array, schedule, backend.upload(np.array(order, np.int32)))
    return state.read()


@pytest.mark.parametrize("step", [1, 2, 7, 100, 30_000])
def test_bias_corrections_are_those_of_the_step(backend: Backend, step: int) -> None:
    """Kingma and Ba 2015, algorithm 1: the first step divides by 1 - beta."""
    state = state_of(backend, step)
    assert state["inv_bias1"] == pytest.approx(1 / (1 - 0.9**step), rel=1e-5)
    assert state["inv_root_bias2"] == pytest.approx((1 - 0.999**step) ** -0.5, rel=1e-5)


@pytest.mark.parametrize("step", [1, 250, 400, 401, 700, 1000, 1500])
def test_rates_decay_log_linearly(backend: Backend, step: int) -> None:
    """Rates of positions decay over the whole run, others from DECAY_START on; all are constant after MAX_STEPS."""
    rates = dict(zip(LEARNING_RATES, state_of(backend, step)["lr"], strict=True))
    progress = min(step / MAX_STEPS, 1)
    late = np.clip((step - DECAY_START) / (MAX_STEPS - DECAY_START), 0, 1)
    assert rates.pop("means") == pytest.approx(FIRST * (FINAL / FIRST) ** progress, rel=1e-5)
    assert rates == pytest.approx({name: rate * DECAY**late for name, rate in RATES.items()}, rel=1e-5)


def test_rates_may_decay_in_the_last_step_alone(backend: Backend) -> None:
    state = state_of(backend, MAX_STEPS, lr_decay_start=MAX_STEPS - 1)
    assert state["lr"][LEARNING_RATES.index("quats")] == pytest.approx(RATES["quats"] * DECAY, rel=1e-5)


def test_a_rate_of_zero_stays_zero(backend: Backend) -> None:
    assert state_of(backend, 500, lr_means=0)["lr"][LEARNING_RATES.index("means")] == 0


@pytest.mark.parametrize(("step", "view"), [(1, 7), (2, 3), (3, 5), (4, 7), (30, 5)])
def test_each_step_has_its_view_and_starts_from_zero(backend: Backend, step: int, view: int) -> None:
    """The order of views repeats; the degree of harmonics rises every 10 steps, up to 2."""
    state = state_of(backend, step, order=(7, 3, 5))
    assert (state["step"], state["view"], state["sh_degree"]) == (step, view, min(2, (step - 1) // 10))
    assert not any(np.any(state[name]) for name in (*NUMBERS, "segments_in_bins"))


def test_random_backgrounds_are_uniform_colors(backend: Backend) -> None:
    """Other ones in each step and with each seed; without them, all steps have the given colour."""
    colors = np.array([state_of(backend, step, random_background=1, seed=5)["background"] for step in range(1, 101)])
    assert len(np.unique(colors)) == 300
    assert (np.histogram(colors, 3, (0, 1))[0] > 75).all()
    assert np.abs(np.corrcoef(colors.T) - np.eye(3)).max() < 0.3
    assert not np.isin(state_of(backend, 1, random_background=1, seed=6)["background"], colors).any()
    assert (state_of(backend, 100, background=0.25)["background"] == 0.25).all()


def test_a_copied_view_keeps_what_accumulates_over_steps(backend: Backend) -> None:
    """Views that are projected ahead have a state of their own."""
    accumulated = {"loss": 7, "psnr": 8, "skipped_updates": 9, "skipped_steps": 10}
    view = {"step": 3, "view": 2, "num_pairs": 40, "overflowed": 1, "loss_l1": 0.5}
    source, target = IterState(backend, **view, **dict.fromkeys(accumulated, 1)), IterState(backend, **accumulated)
    copy_view_state(source, target)
    assert {name: target.read()[name] for name in view | accumulated} == view | accumulated


@pytest.mark.parametrize("step", [1, 9, 28])
def test_each_of_several_views_begins_like_a_step(backend: Backend, step: int) -> None:
    """Views that are rendered at the same time; the step's own state is then at the last of them."""
    order, count, other = (7, 3, 5), 4, {"num_splats": 6, "loss": 0.5, "skipped_updates": 2, "num_frozen": 3}
    state = IterState(backend, step=step - 1, **dict.fromkeys(NUMBERS, 5), **other)
    together, states = IterState.of_views(backend, count)
    schedule = schedule_of(backend, len(order), random_background=1, seed=5), backend.upload(np.array(order, np.int32))
    backend.kernel("optim/begin_step", "begin_views")((1,), (count,), state.array, *schedule, count, together)
    for view, found in enumerate(states):
        expected = state_of(backend, step + view, order, random_background=1, seed=5)
        for name in set(expected.dtype.names) - set(other):
            np.testing.assert_array_equal(found.read()[name], expected[name])
        assert {name: found.read()[name] for name in other} == other
    assert state.read() == states[-1].read()


def test_no_view_begins_after_an_overflow(backend: Backend) -> None:
    state, (together, states) = IterState(backend, step=8, overflowed=1), IterState.of_views(backend, 3)
    order = backend.upload(np.zeros(1, np.int32))
    backend.kernel("optim/begin_step", "begin_views")(
        (1,), (3,), state.array, schedule_of(backend, 1), order, 3, together
    )
    assert [(found.read()["step"], found.read()["overflowed"]) for found in (state, *states)] == 4 * [(8, 1)]
    backend.kernel("optim/begin_step", "end_views")((1,), (1,), state.array, IterState.of_views(backend, 3)[0], 3, 3)
    assert (state.read()["step"], state.read()["overflowed"]) == (8, 1)


@pytest.mark.parametrize(
    ("overflowed", "branches", "needed"),
    [
        ((0, 0, 0), 3, 90),
        ((0, 1, 0), 3, 90),
        ((1, 0, 1), 3, 90),
        ((0, 0, 1), 1, 90),
        ((1, 0, 1), 2, 60),
        ((1, 1, 1), 1, 50),
    ],
)
def test_the_end_of_several_views(backend: Backend, overflowed: tuple[int, ...], branches: int, needed: int) -> None:
    """One overflow stops all; the buffers then need room for the view with most pairs. Means change by all views.

    The pairs of a view that follows an overflowed one on its branch do not count: those of the first are among them.
    """
    state = IterState(backend, step=12, loss=1.0, psnr=20.0, num_splats=9)
    together, states = IterState.of_views(backend, 3)
    for k, view in enumerate(states):
        values = {"loss": 1 + 0.25 * k, "psnr": 20 - k, "needed_pairs": (50, 60, 90)[k], "num_pairs": k}
        view.write(step=10 + k, view=k, num_splats=9, overflowed=overflowed[k], **values)
    backend.kernel("optim/begin_step", "end_views")((1,), (1,), state.array, together, 3, branches)
    found = state.read()
    expected = {"step": 12, "view": 2, "loss": 1.75, "psnr": 17, "num_pairs": 2, "num_splats": 9}
    expected["needed_pairs"] = needed
    assert {name: found[name] for name in expected} == expected
    assert found["overflowed"] == max(overflowed)


def test_the_first_view_sets_the_running_means(backend: Backend) -> None:
    state, (together, states) = IterState(backend, step=2), IterState.of_views(backend, 2)
    for k, view in enumerate(states):
        view.write(step=1 + k, loss=(0.5, 0.01)[k], psnr=(10, 0.3)[k])
    backend.kernel("optim/begin_step", "end_views")((1,), (1,), state.array, together, 2, 2)
    assert (state.read()["loss"], state.read()["psnr"]) == (0.5, 10)


def test_a_restored_view_starts_from_zero(backend: Backend) -> None:
    """Whatever other views have left: a large splat of another view would be listed again."""
    view = {"step": 3, "view": 2, "background": (0.25, 0.5, 0.75)}
    recorded = backend.xp.zeros(BATCH_VIEW_BYTES, "uint8")
    cameras = CameraTable(backend, ring_of_views(4))
    arrays = cameras.array, IterState(backend, **view).array, recorded
    backend.kernel("optim/begin_step", "record_view")((1,), (1,), *arrays)
    state = IterState(backend, step=9, **dict.fromkeys(NUMBERS, 5), segments_in_bins=[5] * SEGMENT_BINS)
    backend.kernel("optim/begin_step", "restore_view")((1,), (1,), state.array, recorded)
    restored = state.read()
    assert (restored["step"], restored["view"], tuple(restored["background"])) == tuple(view.values())
    assert not any(np.any(restored[name]) for name in (*NUMBERS, "segments_in_bins"))
