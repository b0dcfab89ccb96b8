"""Jobs on this machine, one per device at a time."""

from __future__ import annotations

import itertools
import math
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

from splat_cli.device.cuda import visible_gpus, why_no_cuda
from splat_cli.engine.job import Job, JobResult, failed_result
from splat_cli.engine.process import run_job
from splat_cli.errors import SplatError, reason_of
from splat_cli.io.folder_lock import wait_until_unlocked

_LOCK_PATIENCE = 180.0  # seconds for a process of an earlier command to save, or for a lost computer's lock to expire
_POLL = 0.1  # seconds


class LocalEngine:
    """An Engine with a thread per device.

    environments: environment variables of each device. check: called often in `results`, may raise KeyboardInterrupt.
    say: shows a line of progress.
    """

    def __init__(
        self, environments: Sequence[Mapping[str, str]], check: Callable[[], None], say: Callable[[str], None]
    ) -> None:
        self._environments, self._check, self._say = environments, check, say
        self._closing, self._numbers, self._num_expected = threading.Event(), itertools.count(), 0
        # (minus priority, number, job or None to end a thread, variables of its devices or None for the thread's own)
        self._jobs = queue.PriorityQueue[tuple[float, int, Job | None, Mapping[str, str] | None]]()
        self._results = queue.SimpleQueue[JobResult | Exception]()
        self._threads = [threading.Thread(target=self._work, args=(one,), daemon=True) for one in environments]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Job) -> None:
        """See Engine.submit."""
        self._queue(job, None)

    def results(self) -> Iterator[JobResult]:
        """See Engine.results."""
        while self._num_expected:
            self._check()
            try:
                result = self._results.get(timeout=_POLL)
            except queue.Empty:
                continue
            self._num_expected -= 1
            if isinstance(result, Exception):
                raise result
            yield result

    def run_ranks(self, jobs: Mapping[int, Job]) -> JobResult | None:
        """See Engine.run_ranks. The job, which sees all its devices, starts its ranks itself."""
        size = max((size for size in jobs if size <= len(self._environments)), default=0)
        if not size:
            return None
        devices = self._environments[:size]
        self._queue(jobs[size], {name: ",".join(one[name] for one in devices) for name in devices[0]})
        return next(self.results())

    def close(self) -> None:
        """See Engine.close."""
        self._closing.set()
        for _ in self._threads:
            self._jobs.put((-math.inf, next(self._numbers), None, None))
        for thread in self._threads:
            thread.join()

    def _queue(self, job: Job, devices: Mapping[str, str] | None) -> None:
        self._num_expected += 1
        self._jobs.put((-job.priority, next(self._numbers), job, devices))

    def _work(self, environment: Mapping[str, str]) -> None:
        while not self._closing.is_set():
            *_, job, devices = self._jobs.get()
            if job is None:
                return
            try:
                if result := self._run(job, devices or environment):
                    self._results.put(result)
            except Exception as error:
                self._results.put(error)

    def _run(self, job: Job, devices: Mapping[str, str]) -> JobResult | None:
        """The result of a job, once no other process holds the lock of its run; None if the engine closes earlier."""

        def say(text: str) -> None:
            self._say(f"{job.name}: {text}")

        try:
            if job.run:
                wait_until_unlocked(job.folder / job.run, _LOCK_PATIENCE, self._closing.is_set, say)
            if self._closing.is_set():
                return None
            return run_job(job, devices, describe_device(devices), self._closing.is_set)
        except OSError as error:  # a full disk, a log that cannot be written, no memory for a process
            return failed_result(job, f"{error.filename or 'the process'}: {reason_of(error)}")
        except SplatError as error:
            return failed_result(job, str(error), error.exit_code)


def describe_device(environment: Mapping[str, str]) -> str:
    """Name of the device for messages; empty if there is only one."""
    return ", ".join(f"GPU {name}" for name in environment.values())


def device_environments(device: str) -> list[dict[str, str]]:
    """Environment variables for each device that make only this device visible."""
    if device == "cpu" or why_no_cuda():
        return [{}]
    import cupy

    return [{"CUDA_VISIBLE_DEVICES": name} for name in visible_gpus(cupy.cuda.runtime.getDeviceCount())]
