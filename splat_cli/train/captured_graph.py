"""Captured launches (CUDA graphs) that are replayed until buffers are reallocated."""

from __future__ import annotations

from collections.abc import Callable

from splat_cli.render.rasterizer import Rasterizer


class CapturedGraph:
    """Captures what `launch` queues, and replays it; captured again after buffers were reallocated.

    launch: queues kernels and copies with fixed arrays and scalars; values that vary lie in device memory.
    """

    def __init__(self, rasterizer: Rasterizer, launch: Callable[[], None]) -> None:
        self._rasterizer, self._launch = rasterizer, launch
        self._replay = launch
        self._generation = -1

    @property
    def current(self) -> bool:
        """Whether a graph is captured and its buffers were not reallocated since."""
        return self._generation == self._rasterizer.generation

    def run(self, count: int) -> None:
        """Queue the graph `count` times."""
        if count > 0 and not self.current:
            self._launch()  # loads kernels: not allowed during capture
            self._replay = self._rasterizer.backend.capture_graph(self._launch)
            self._generation = self._rasterizer.generation
            count -= 1
        for _ in range(count):
            self._replay()
