"""Execution of training steps: one captured graph a batch, replayed; the host polls the iteration state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from splat_cli.data.image_streamer import ImageStreamer
from splat_cli.device.launch import ceil_div
from splat_cli.render.iter_state import IterState
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.terminal.phase_timer import PhaseTimer


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


class Replay(Protocol):
    """A captured batch."""

    @property
    def current(self) -> bool:
        """Whether it is captured."""

    def run(self, count: int) -> None:
        """Queue it `count` times."""


class PairBuffers(Protocol):
    """Buffers of (splat, tile) pairs of the rasterizer, on one or several ranks."""

    def grow_if_overflowed(self, state: IterState) -> bool:
        """See Rasterizer.grow_if_overflowed."""


class StepLoop:
    """Repeats batches of `batch` steps. `step`: number of steps done; `last`: iteration state at the last `sync`.

    graph: replays a batch. `stream`: loads the photographs of the next steps, if not all are resident. resume: queues
    the steps of a batch from a given one on, after an overflow; without it, an overflow undoes the whole batch.
    """

    def __init__(
        self, graph: Replay, state: IterState, buffers: PairBuffers, stream: ImageStreamer | None, timer: PhaseTimer,
        batch: int = 1, resume: Callable[[int], None] | None = None,
    ) -> None:  # fmt: skip
        self.state, self.step, self.last = state, 0, state.read()
        self._buffers, self._stream, self._timer = buffers, stream, timer
        self._graph, self._batch, self._resume = graph, batch, resume

    def run_until(self, target: int) -> None:
        """Run whole batches until `target` steps are done; after an overflow, grow the buffers and repeat the step."""
        target = self._whole(target)
        while self.step < target:
            queued = self.step
            while queued < target:
                stop = min(target, self._stream.ready(queued)) if self._stream else target
                self._queue(queued, stop)
                queued = stop
            if self._stream:
                self._stream.ready(queued)  # while the device works
            self.sync()

    def sync(self) -> None:
        """Wait for the device and read the iteration state; after an overflow, grow the buffers."""
        self.last = self.state.read()
        self.step = int(self.last["step"])
        if self.last["overflowed"]:
            self.step -= 1 if self._resume else self._batch
            self._buffers.grow_if_overflowed(self.state)
            self.state.write(step=self.step)

    def _whole(self, step: int) -> int:
        return ceil_div(step, self._batch) * self._batch

    def _queue(self, step: int, stop: int) -> None:
        if step % self._batch and self._resume:  # an overflow has interrupted a batch: the steps done so far are kept
            self._resume(step % self._batch)
        count = (stop - self._whole(step)) // self._batch
        if count > 0 and not self._graph.current:
            with self._timer("preparing kernels"):
                self._graph.run(1)
            count -= 1
        self._graph.run(count)
