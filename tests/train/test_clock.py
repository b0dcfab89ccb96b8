"""Seconds by phase."""

import pytest

from splat_cli.train import clock as module
from splat_cli.train.clock import Clock


@pytest.fixture
def wait(monkeypatch):
    """`wait(seconds)` moves the clock on."""
    now = [0.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: now[0])

    def wait(seconds):
        now[0] += seconds

    return wait


def test_inner_phases_do_not_count_in_outer_ones(wait):
    clock = Clock("other")
    wait(1)
    with clock("training"):
        wait(2)
        with clock("saving"):
            wait(4)
        wait(8)
    assert clock.seconds == {"other": 1, "training": 10, "saving": 4}


def test_an_error_ends_its_phase(wait):
    clock = Clock("other")
    with pytest.raises(ZeroDivisionError), clock("training"):
        wait(1 / 0)
    wait(2)
    assert clock.seconds == {"other": 2, "training": 0}
