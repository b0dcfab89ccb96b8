"""Engines run jobs, one per device at a time: on this machine (LocalEngine) or on a Dask cluster (dask_engine.py).

Both keep waiting jobs themselves: they start one when a device is free, because nobody knows how long jobs take.
LocalEngine is not a Dask cluster of this machine, because Dask is an optional extra.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.pool import ThreadPool
from typing import Any

from splat_cli.engine.job import Job, JobResult, failed_result
from splat_cli.engine.process import describe_device, run_job
from splat_cli.errors import SplatError, reason_of

LOCK_PATIENCE = 180.0  # seconds for a process of an earlier command to save, or for a lost computer's lock to expire


class Engine(ABC):
    """Runs jobs, one per device at a time, by priority and then in the order of submission.

    check: called often in `results`, may raise KeyboardInterrupt. say: shows a line of progress.
    """

    _poll = 0.1  # seconds

    def __init__(self, check: Callable[[], None], say: Callable[[str], None]) -> None:
        self._check, self._say = check, say
        self._waiting: list[Job] = []
        self._running: dict[Any, Any] = {}  # by future

    def submit(self, job: Job) -> None:
        """Queue a job, which starts in `results`."""
        self._waiting.append(job)

    def results(self) -> Iterator[JobResult]:
        """Results of the submitted jobs as they finish, until all are done; more jobs may be submitted in between.

        KeyboardInterrupt after Ctrl-C. UsageError if no job can run here. A job that cannot run has a result with an
        error; the others go on.
        """
        while self._waiting or self._running:
            self._check()
            found = self._next_results()
            yield from found
            if not found:
                time.sleep(self._poll)

    def _in_order(self) -> list[Job]:
        """The waiting jobs in the order in which they start."""
        return sorted(self._waiting, key=lambda job: -job.priority)  # stable: equal priorities keep their order

    @abstractmethod
    def _next_results(self) -> list[JobResult]:
        """Results that have arrived since the last call. Starts waiting jobs on free devices."""

    def run_ranks(self, jobs: Mapping[int, Job]) -> JobResult | None:
        """The result of one job on the largest possible number of free workers of a cluster, one rank per worker.

        jobs: the job for each possible number of workers, from 2. None if too few are free. If ranks cannot start or
        one is lost, all ranks end and the result has an error. Call it while no other job is submitted.
        KeyboardInterrupt after Ctrl-C.
        """
        return None

    @abstractmethod
    def close(self) -> None:
        """Drop waiting jobs, interrupt running ones, and wait until they have saved."""


class LocalEngine(Engine):
    """The devices of this machine, with a thread per running job. devices: environment variables of each device."""

    def __init__(
        self, devices: Sequence[Mapping[str, str]], check: Callable[[], None], say: Callable[[str], None]
    ) -> None:
        super().__init__(check, say)
        self._free, self._closing = list(devices), threading.Event()
        self._threads = ThreadPool(len(devices))  # of daemons: a second Ctrl-C does not wait for them

    def close(self) -> None:
        self._closing.set()
        self._threads.close()
        self._threads.join()

    def _next_results(self) -> list[JobResult]:
        ended = [task for task in self._running if task.ready()]
        for task in ended:
            self._free.append(self._running.pop(task))
        for job in self._in_order()[: len(self._free)]:
            self._waiting.remove(job)
            device = self._free.pop(0)
            self._running[self._threads.apply_async(self._run, [job, device])] = device
        return [task.get() for task in ended]

    def _run(self, job: Job, variables: Mapping[str, str]) -> JobResult:
        is_closing = self._closing.is_set
        try:
            job.wait_for_run(LOCK_PATIENCE, is_closing, lambda text: self._say(f"{job.name}: {text}"))
            if is_closing():
                return failed_result(job, "interrupted")
            return run_job(job, variables, describe_device(variables), is_closing)
        except OSError as error:  # a full disk, a log that cannot be written, no memory for a process
            return failed_result(job, f"{error.filename or 'the process'}: {reason_of(error)}")
        except SplatError as error:
            return failed_result(job, str(error), error.exit_code)
