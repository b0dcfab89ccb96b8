"""Device time of work on a stream."""

from __future__ import annotations

from typing import Any


class CudaTimer:
    """Device time between two events on a stream."""

    def __init__(self, xp: Any, stream: Any) -> None:
        self._xp, self._stream = xp, stream
        self._start, self._end = xp.cuda.Event(), xp.cuda.Event()

    def __enter__(self) -> CudaTimer:
        self._start.record(self._stream)
        return self

    def __exit__(self, *exc: object) -> None:
        self._end.record(self._stream)

    @property
    def ms(self) -> float:
        """Milliseconds between entry and exit; waits for the end."""
        self._end.synchronize()
        return self._xp.cuda.get_elapsed_time(self._start, self._end)
