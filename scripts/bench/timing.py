"""Timing of calls and of the device's bandwidth, for the benchmarks."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from splat_cli.device import Backend


def median_ms(backend: Backend, function: Callable[[], Any], repeats: int) -> float:
    """Median device milliseconds of `repeats` calls, after one that loads kernels."""
    function()
    times = []
    for _ in range(repeats):
        with backend.timer() as timer:
            function()
        times.append(timer.ms)
    return statistics.median(times)


def copy_bandwidth(backend: Backend) -> float:
    """Gigabytes per second of a device copy, bytes read and written."""
    size = (1 << 30) if backend.name == "cuda" else (1 << 26)
    source = backend.xp.zeros(size, "uint8")
    target = backend.xp.empty_like(source)
    times = []
    for _ in range(12):
        with backend.timer() as timer:
            target[...] = source
        times.append(timer.ms)
    return 2 * size / statistics.median(times[2:]) / 1e6
