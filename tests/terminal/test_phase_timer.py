"""Seconds by phase, and seconds of training."""

import pytest

from splat_cli.terminal import phase_timer as module
from splat_cli.terminal.phase_timer import PhaseTimer, Stopwatch


@pytest.fixture
def wait(monkeypatch):
    """`wait(seconds)` advances the timer."""
    now = [0.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: now[0])

    def wait(seconds):
        now[0] += seconds

    return wait


def test_inner_phases_do_not_count_towards_outer_ones(wait):
    timer = PhaseTimer("other")
    wait(1)
    with timer("training"):
        wait(2)
        with timer("saving"):
            wait(4)
        wait(8)
    assert timer.seconds == {"other": 1, "training": 10, "saving": 4}


def test_an_error_ends_its_phase_and_a_restart_all(wait):
    timer = PhaseTimer("other")
    with pytest.raises(ZeroDivisionError), timer("training"):
        wait(1 / 0)
    wait(2)
    assert timer.seconds == {"other": 2, "training": 0}
    timer.restart("starting")
    wait(1)
    assert timer.seconds == {"starting": 1}


def test_stopwatch_does_not_count_pauses(wait):
    stopwatch = Stopwatch(100)
    wait(1)
    with stopwatch.running():
        wait(2)
        with stopwatch.paused():
            wait(4)
        wait(8)
        assert stopwatch.seconds == 110
    wait(16)
    assert stopwatch.seconds == 110


def test_an_error_stops_the_stopwatch(wait):
    stopwatch = Stopwatch()
    with pytest.raises(ZeroDivisionError), stopwatch.running(), stopwatch.paused():
        wait(1 / 0)
    wait(1)
    assert stopwatch.seconds == 0
