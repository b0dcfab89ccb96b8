"""How the benchmarks time what they call."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from splat_cli.device import Backend


def median_ms(backend: Backend, function: Callable[[], Any], repeats: int) -> float:
    """The median of `repeats` calls, after one that loads kernels; milliseconds of the device."""
    function()
    times = []
    for _ in range(repeats):
        with backend.timer() as timer:
            function()
        times.append(timer.ms)
    return statistics.median(times)
