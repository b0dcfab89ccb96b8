"""Records times of a live run on several ranks, in one file per rank, for rank_passes.py.

As a program, `python -m rank_recorder SOCKET RANK SIZE FILES...` is a follower that records.
"""

from __future__ import annotations

import functools
import os
import pickle
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from live_passes import timed_launches

from splat_cli.device import Backend
from splat_cli.device.backend import Timer
from splat_cli.ranks.protocol import Channel
from splat_cli.run import follower
from splat_cli.train.density_control import DensityControl
from splat_cli.train.multi_gpu.sharded import ShardedBatch, ShardedScorer
from splat_cli.train.multi_gpu.shares import SharedSplats
from splat_cli.train.step import StepLoop
from splat_cli.train.trainer import Trainer

FOLDER, KERNELS_AT = "RANK_PASSES_FOLDER", "RANK_PASSES_KERNELS_AT"  # environment variables: files; batch
BLOCK = 50  # consecutive batches that are timed in the same way
now = time.perf_counter


@dataclass
class Records:
    """The records of a rank. All times are seconds of the host's monotonic clock, which its processes share.

    stages: names of the stages of a batch. batches: number -> times when the host queued them, and device times.
    kernels: (stage, kernel) -> milliseconds in each batch whose kernels were timed. spans: (what, begin, end) on
    the host.
    """

    stages: list[str] = field(default_factory=list)
    batches: dict[int, tuple[list[float], list[float]]] = field(default_factory=dict)
    kernels: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    spans: list[tuple[str, float, float]] = field(default_factory=list)


class Clock:
    """Times of the device, converted to the host's clock."""

    def __init__(self, backend: Backend) -> None:
        self._backend, self._is_cuda = backend, backend.name == "cuda"
        self._anchor: tuple[Any, float] = self.mark(), now()

    def mark(self) -> Any:
        """A mark that `time` converts to the time at which the device finishes the work queued before."""
        if not self._is_cuda:
            return now()
        event = self._backend.xp.cuda.Event()
        event.record(self._backend.stream)  # type: ignore[attr-defined]
        return event

    def set_anchor(self) -> None:
        """Relate the clocks of host and device, while the device is idle."""
        before = now()
        self._anchor = self.mark(), before

    def reader(self) -> Callable[[Any], float]:
        """The time of a mark since the last `set_anchor`, once the device has passed it."""
        if not self._is_cuda:
            return lambda mark: mark
        anchor, since = self._anchor
        elapsed = self._backend.xp.cuda.get_elapsed_time
        return lambda mark: since + 1e-3 * elapsed(anchor, mark)


class Recorder:
    """Records the work of this process from `install` on."""

    def __init__(self, path: Path, kernels_at: int) -> None:
        self._path, self._kernels_at = path, kernels_at
        self._records, self._number = Records(), 0
        self._pending: list[tuple[int, list[float], list[Any], Callable[[Any], float]]] = []
        self._launches: list[dict[tuple[str, str], list[Timer]]] = []
        self._clock: Clock | None = None
        self._stage = ""

    def install(self) -> None:
        """Replace methods of the package by recording ones in this process."""
        setattr(ShardedBatch, "run", lambda step, count: self._run(step, count))  # noqa: B010
        for owner, name, what in [
            (DensityControl, "refine", "refine: all of it"),
            (ShardedScorer, "scores", "refine: scores"),
            (SharedSplats, "gather_geometry", "refine: gather geometry"),
            (SharedSplats, "spread", "refine: spread"),
            (SharedSplats, "load", "load"),
            (SharedSplats, "splats", "gather"),
            (Trainer, "constrain", "constrain"),
        ]:
            self._wrap(owner, name, what, waits=True)
        self._wrap(Trainer, "advance", "steps")
        self._wrap(StepLoop, "sync", "steps: wait for the device", after=self._synced)
        self._wrap(Channel, "next_message", "wait for rank 0")

    def write(self) -> None:
        """Append the new records to the file."""
        with self._path.open("ab") as file:
            pickle.dump(self._records, file)
        self._records = Records(self._records.stages)

    def _wrap(
        self, owner: Any, name: str, what: str, waits: bool = False, after: Callable[[], None] = lambda: None
    ) -> None:
        """Record the time of a method's calls. waits: for the end of the queued work."""
        method = getattr(owner, name)

        @functools.wraps(method)
        def recorded(instance: Any, *arguments: Any) -> Any:
            begin = now()
            try:
                return method(instance, *arguments)
            finally:
                if waits and self._clock:
                    self._clock._backend.synchronize()
                self._records.spans.append((what, begin, now()))
                after()
                if what == "gather":
                    self.write()

        setattr(owner, name, recorded)

    def _run(self, step: ShardedBatch, count: int) -> None:
        """ShardedBatch.run with timed stages in some batches and timed kernels in others."""
        self._clock = self._clock or Clock(step.batch_step.backend)
        self._records.stages = list(step.stages)
        for _ in range(count):
            block = self._number // BLOCK
            if block == self._kernels_at // BLOCK:
                self._run_kernels(step)
            elif block % 4 < 2 and step.current:
                self._run_timed(step)
            else:
                for queue in step.stages.values():
                    queue()
            self._number += 1

    def _run_timed(self, step: ShardedBatch) -> None:
        assert self._clock is not None
        queued, marks = [now()], [self._clock.mark()]
        for queue in step.stages.values():
            queue()
            queued.append(now())
            marks.append(self._clock.mark())
        self._pending.append((self._number, queued, marks, self._clock.reader()))

    def _run_kernels(self, step: ShardedBatch) -> None:
        """A batch without captured graphs."""
        timers: dict[tuple[str, str], list[Timer]] = defaultdict(list)
        with timed_launches(step.batch_step.backend, lambda name, timer: timers[self._stage, name].append(timer)):
            for self._stage, queue in step.stages.items():
                step.launches.get(self._stage, queue)()
        self._launches.append(timers)

    def _synced(self) -> None:
        """Read the times of finished batches while the device is idle, if the next batches are not timed."""
        if self._clock is None:
            return
        if self._number // BLOCK % 4 >= 2:
            for number, queued, marks, read in self._pending:
                self._records.batches[number] = queued, [read(mark) for mark in marks]
            self._pending.clear()
        for timers in self._launches[len(self._launches) // 2 :]:  # the host was late in the first batches
            for key, ones in timers.items():
                self._records.kernels.setdefault(key, []).append(sum(timer.ms for timer in ones))
        self._launches.clear()
        self._clock.set_anchor()


def recorder_of(rank: int) -> Recorder:
    """The recorder of rank `rank` according to the environment."""
    return Recorder(Path(os.environ[FOLDER]) / str(rank), int(os.environ[KERNELS_AT]))


if __name__ == "__main__":
    recorder_of(int(sys.argv[2])).install()
    follower.main(sys.argv[1:])
