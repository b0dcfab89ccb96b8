"""Queue of results that other threads deliver, shared by the engines."""

import queue
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

_POLL = 0.1  # seconds
_Result = TypeVar("_Result")


class ResultQueue(Generic[_Result]):
    """Results of work that was announced with `expect`. check: called often while waiting, to raise exceptions."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check, self._num_expected = check, 0
        self._arrived = queue.SimpleQueue[_Result]()
        self.put = self._arrived.put

    def expect(self) -> None:
        """Announce one more result."""
        self._num_expected += 1

    def drain(self) -> Iterator[_Result]:
        """The results as they arrive, until none is expected any more."""
        while self._num_expected:
            self._check()
            try:
                result = self._arrived.get(timeout=_POLL)
            except queue.Empty:
                continue
            self._num_expected -= 1
            yield result
