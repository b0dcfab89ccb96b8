"""Limit on the share of time taken by interruptions of training."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Throttle:
    """Spaces interruptions so that they take at most `share` of the time: longer pauses after slow ones."""

    def __init__(self, share: float = 0.05) -> None:
        self._waits = 1 / share - 1
        self._next = 0.0

    def due(self) -> bool:
        """Whether an interruption is allowed now."""
        return time.perf_counter() >= self._next

    @contextmanager
    def interruption(self) -> Iterator[None]:
        """Measures the time of an interruption."""
        began = time.perf_counter()
        yield
        ended = time.perf_counter()
        self._next = ended + (ended - began) * self._waits
