"""Execution of training steps: one captured graph, replayed; the host polls the iteration state."""

from __future__ import annotations

from collections.abc import Callable

from splat_cli.data.image_streamer import ImageStreamer
from splat_cli.phase_timer import PhaseTimer
from splat_cli.render.captured_graph import CapturedGraph
from splat_cli.render.iter_state import IterState
from splat_cli.render.rasterizer import Rasterizer


class StepLoop:
    """Repeats the step that `launch` queues. `step`: number of steps done; `last`: iteration state at the last `sync`.

    `stream`: loads the photographs of the next steps, if not all are resident.
    """

    def __init__(
        self, launch: Callable[[], None], state: IterState, rasterizer: Rasterizer, stream: ImageStreamer | None,
        timer: PhaseTimer,
    ) -> None:  # fmt: skip
        self.state, self.step, self.last = state, 0, state.read()
        self._rasterizer, self._stream, self._timer = rasterizer, stream, timer
        self._graph = CapturedGraph(rasterizer, launch)

    def run_until(self, target: int) -> None:
        """Run steps until `target` are done; after an overflow, grow the buffers and repeat the step."""
        while self.step < target:
            queued = self.step
            while queued < target:
                stop = min(target, self._stream.ready(queued)) if self._stream else target
                self._queue(stop - queued)
                queued = stop
            if self._stream:
                self._stream.ready(queued)  # while the device works
            self.sync()

    def sync(self) -> None:
        """Wait for the device and read the iteration state; after an overflow, grow the buffers."""
        self.last = self.state.read()
        self.step = int(self.last["step"])
        if self.last["overflowed"]:
            self.step -= 1
            self._rasterizer.grow_if_overflowed(self.state)
            self.state.write(step=self.step)

    def _queue(self, count: int) -> None:
        if not self._graph.current:
            with self._timer("preparing kernels"):
                self._graph.run(1)
            count -= 1
        self._graph.run(count)
