"""Where the time of a run goes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class PhaseTimer:
    """`with clock("reading"): ...`: seconds by phase. What runs in a phase inside another one counts in that alone."""

    def __init__(self, phase: str) -> None:
        self._phase, self._since = phase, time.perf_counter()
        self._seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        outer = self._phase
        self._enter(phase)
        try:
            yield
        finally:
            self._enter(outer)

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by phase up to now, in milliseconds' steps; what is in no phase is in the constructor's."""
        self._enter(self._phase)
        return {phase: round(seconds, 3) for phase, seconds in self._seconds.items()}

    def _enter(self, phase: str) -> None:
        now = time.perf_counter()
        self._seconds[self._phase] = self._seconds.get(self._phase, 0.0) + now - self._since
        self._phase, self._since = phase, now
