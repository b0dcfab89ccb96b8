"""Jobs on this machine, one per device at a time."""

from __future__ import annotations

import itertools
import math
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from splat_cli.device.cuda import visible_gpus, why_no_cuda
from splat_cli.engine.job import Job, JobResult
from splat_cli.engine.process import run_job
from splat_cli.engine.result_queue import ResultQueue
from splat_cli.io.folder_lock import wait_until_unlocked

_LOCK_PATIENCE = 180.0  # seconds for a process of an earlier command to save, or for a lost computer's lock to expire


@dataclass(frozen=True)
class _Work:
    """A job. environment: variables that select its devices; None: those of the thread that runs it."""

    job: Job
    environment: Mapping[str, str] | None


class LocalEngine:
    """An Engine with a thread per device.

    environments: of each device; check: called often in `results`, to raise KeyboardInterrupt; say: shows a line of
    progress.
    """

    def __init__(
        self, environments: Sequence[Mapping[str, str]], check: Callable[[], None], say: Callable[[str], None]
    ) -> None:
        self._say, self._environments = say, environments
        self._closing, self._jobs = threading.Event(), queue.PriorityQueue[tuple[float, int, _Work | None]]()
        self._num_queued = itertools.count()
        self._results = ResultQueue[JobResult | Exception](check)
        self._threads = [threading.Thread(target=self._work, args=(one,), daemon=True) for one in environments]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Job) -> None:
        """See Engine.submit."""
        self._queue(job, None)

    def results(self) -> Iterator[JobResult]:
        """See Engine.results."""
        for result in self._results.drain():
            if isinstance(result, Exception):
                raise result
            yield result

    def run_ranks(self, jobs: Mapping[int, Job]) -> JobResult | None:
        """See Engine.run_ranks. The job, which sees all its devices, starts its ranks itself."""
        size = max((size for size in jobs if size <= len(self._environments)), default=0)
        if not size:
            return None
        self._queue(jobs[size], _joined(self._environments[:size]))
        return next(self.results())

    def close(self) -> None:
        """See Engine.close."""
        self._closing.set()
        for _ in self._threads:
            self._jobs.put((-math.inf, next(self._num_queued), None))
        for thread in self._threads:
            thread.join()

    def _queue(self, job: Job, environment: Mapping[str, str] | None) -> None:
        self._results.expect()
        self._jobs.put((-job.priority, next(self._num_queued), _Work(job, environment)))

    def _work(self, environment: Mapping[str, str]) -> None:
        while (work := self._jobs.get()[-1]) is not None and not self._closing.is_set():
            job, devices = work.job, work.environment or environment
            try:
                self._wait_for_run(job)
                if not self._closing.is_set():
                    self._results.put(run_job(job, devices, describe_device(devices), self._closing.is_set))
            except Exception as error:
                self._results.put(error)

    def _wait_for_run(self, job: Job) -> None:
        """Wait until no other process has locked the run of a job, for at most _LOCK_PATIENCE seconds."""

        def say(text: str) -> None:
            self._say(f"{job.name}: {text}")

        if job.run:
            wait_until_unlocked(job.folder / job.run, _LOCK_PATIENCE, self._closing.is_set, say)


def _joined(environments: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Environment variables that make the devices of all these environments visible."""
    return {name: ",".join(one[name] for one in environments) for name in environments[0]}


def describe_device(environment: Mapping[str, str]) -> str:
    """Name of the device for messages; empty if there is only one."""
    return ", ".join(f"GPU {name}" for name in environment.values())


def device_environments(device: str) -> list[dict[str, str]]:
    """Environment variables per device that make only this device visible."""
    if device == "cpu" or why_no_cuda():
        return [{}]
    import cupy

    return [{"CUDA_VISIBLE_DEVICES": name} for name in visible_gpus(cupy.cuda.runtime.getDeviceCount())]
