"""Limit on the time that interruptions of training take."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Throttle:
    """Spaces interruptions so that they take `share` of the time at most: after a slow one, the next waits longer."""

    def __init__(self, share: float = 0.05) -> None:
        self._waits = 1 / share - 1
        self._next = 0.0

    def due(self) -> bool:
        """Whether there is time for one now."""
        return time.perf_counter() >= self._next

    @contextmanager
    def interruption(self) -> Iterator[None]:
        """Measures what happens inside."""
        began = time.perf_counter()
        yield
        ended = time.perf_counter()
        self._next = ended + (ended - began) * self._waits
