"""Wall-clock time of a run: seconds by phase, seconds of training."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class PhaseTimer:
    """Seconds by phase: `with timer("reading"): ...`. A nested phase does not count for the outer one.

    phase: name of the time outside all phases.
    """

    def __init__(self, phase: str) -> None:
        self.restart(phase)

    def restart(self, phase: str) -> None:
        """Forget all phases. Call it outside of them."""
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
        """Seconds by phase so far, rounded to milliseconds."""
        self._enter(self._phase)
        return {phase: round(seconds, 3) for phase, seconds in self._seconds.items()}

    def _enter(self, phase: str) -> None:
        now = time.perf_counter()
        self._seconds[self._phase] = self._seconds.get(self._phase, 0.0) + now - self._since
        self._phase, self._since = phase, now


class Stopwatch:
    """Seconds spent in `with stopwatch.running(): ...`, except in `paused`. total: initial value, in seconds."""

    def __init__(self, total: float = 0.0) -> None:
        self._total = total
        self._since: float | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        self._since = time.perf_counter()
        try:
            yield
        finally:
            self._stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Use inside `running`: this time does not count."""
        self._stop()
        try:
            yield
        finally:
            self._since = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Total so far."""
        return self._total + (0.0 if self._since is None else time.perf_counter() - self._since)

    def _stop(self) -> None:
        self._total, self._since = self.seconds, None
