"""Ranks of one run on the workers of a Dask cluster: tasks that start together and end together."""

from __future__ import annotations

import queue
import secrets
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Any

from distributed import Client, Future, KilledWorker, Lock

from splat_cli import __version__
from splat_cli.engine.dask_engine import SchedulerLost, drop, remote_call, result_of, visible_inputs
from splat_cli.engine.free_workers import NAMES, FreeWorkers
from splat_cli.engine.job import Job, JobResult
from splat_cli.engine.rank_worker import RankTask, follow, lead
from splat_cli.errors import SplatError, one_line
from splat_cli.ranks.protocol import RankError

_POLL = 0.2  # seconds
_LOST_CHECK_INTERVAL = 2.0  # seconds
_LOCK = "splat-ranks"


class RankGroup:
    """Runs jobs on several ranks. Arguments: see FreeWorkers."""

    def __init__(
        self, client: Client, device: str, can_grow: bool, say: Callable[[str], None], check: Callable[[], None]
    ) -> None:
        self._client, self._say, self._interrupted = client, say, check
        self._free_workers = FreeWorkers(client, device, can_grow, say, self._check)

    def run(self, jobs: Mapping[int, Job]) -> JobResult:
        """The result of rank 0, which runs a job.

        jobs: the job for each possible number of ranks, see FreeWorkers.wait. RankError if a worker is lost or closes,
        UsageError if the job cannot run on this cluster; also SchedulerLost and KeyboardInterrupt. All ranks have ended
        afterwards, and have saved if possible.
        """
        jobs = {size: visible_inputs(job) for size, job in jobs.items()}
        sizes = sorted(jobs, reverse=True)
        tasks: _Tasks | None = None
        try:
            with ExitStack() as turn:
                self._lock_workers(turn)
                workers, device = self._free_workers.wait(jobs[sizes[0]], sizes)
                if (size := len(workers)) < sizes[0]:
                    self._say(f"The cluster has no {sizes[0]} {NAMES[device]}: continuing with --gpus {size}")
                tasks = _Tasks(self._client, jobs[size], size)
                tasks.start(workers, device)
                while (result := tasks.result()) is None:
                    self._check()
                    if line := tasks.handle_event():
                        self._say(line)
                    if tasks.num_running == size:
                        turn.close()
            return result
        except OSError as error:  # of a connection, as distributed raises them
            raise SchedulerLost from error
        finally:
            with suppress(OSError):
                if tasks:
                    tasks.end()

    def run_on_free(self, jobs: Mapping[int, Job]) -> JobResult | None:
        """`run` on as many workers as are free now, None where these are too few for any of the jobs."""
        size = self._free_workers.most(visible_inputs(next(iter(jobs.values()))), list(jobs))
        return None if size is None else self.run({size: jobs[size]})

    def _check(self) -> None:
        self._interrupted()
        if self._client.status == "closed":
            raise SchedulerLost

    def _lock_workers(self, turn: ExitStack) -> None:
        """Hold a lock until `turn` closes: two commands that each hold some of the workers would deadlock."""
        with self._client.as_current():
            lock = Lock(_LOCK)
        while not lock.acquire(timeout=_POLL):
            self._check()
        turn.callback(lock.release)


class _Tasks:
    """The tasks of the ranks of one job, and the events that they send."""

    def __init__(self, client: Client, job: Job, size: int) -> None:
        self._client, self._job, self._size, self.num_running = client, job, size, 0
        self._topic, self._futures, self._workers = f"splat-{uuid.uuid4()}", list[Future](), list[str]()
        self._events, self._last_lost_check = queue.SimpleQueue[tuple[Any, ...]](), 0.0
        self._result: JobResult | None = None
        client.subscribe_topic(self._topic, lambda event: self._events.put(tuple(event[1])))

    def start(self, workers: list[str], device: str) -> None:
        """Start rank 0; the others follow when it listens."""
        self._workers = workers
        key = secrets.token_bytes(32)
        self._work = RankTask(self._job, self._size, device, __version__, self._topic, key)
        self._submit(lead)

    def result(self) -> JobResult | None:
        """The result of rank 0, None before it has ended."""
        return self._result

    def handle_event(self) -> str | None:
        """Wait up to _POLL seconds for an event of a task and handle it. Returns a line for the user, or None.

        RankError if a worker is lost.
        """
        self._check_workers()
        try:
            kind, rank, *details = self._events.get(timeout=_POLL)
        except queue.Empty:
            return None
        name = f"rank {rank} of {self._size}"
        if kind == "listens":
            if len(self._futures) > 1:
                raise RankError(f"the worker of {name} was lost and has reconnected")
            for _ in self._workers[1:]:
                self._submit(follow, *details)
        elif kind == "runs":
            self.num_running += 1
            return f"{name.capitalize()} runs on {details[0]}"
        elif kind == "waits":
            return f"{name.capitalize()} {details[0]}"
        elif kind == "closes":
            raise RankError(f"the worker of {name} closes: {details[0]}")
        else:
            try:
                self._result = result_of(self._futures[rank]) or self._result  # other ranks have none
            except KilledWorker:
                raise RankError(f"the worker of {name} is lost") from None
            except OSError as error:  # on the worker: an address that it cannot listen at, a full disk
                raise SplatError(f"the worker of {name} failed: {one_line(error)}") from None
        return None

    def end(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        drop(self._client, self._futures, self._topic)
        self._client.unsubscribe_topic(self._topic)

    def _submit(self, function: Callable[..., Any], *details: Any) -> None:
        """Submit the task of the next rank to its worker."""
        rank = len(self._futures)
        call = remote_call(function, self._work, *([rank] if rank else []), *details)
        key = f"{self._job.name}-rank-{rank}-{uuid.uuid4()}"
        self._futures.append(self._client.submit(*call, workers=[self._workers[rank]], key=key, pure=False))
        self._futures[rank].add_done_callback(lambda _: self._events.put(("ended", rank)))

    def _check_workers(self) -> None:
        if time.monotonic() - self._last_lost_check < _LOST_CHECK_INTERVAL:
            return
        present, self._last_lost_check = self._client.nthreads(), time.monotonic()
        for rank, worker in enumerate(self._workers):
            if worker not in present:
                raise RankError(f"the worker of rank {rank} of {self._size} is lost: {worker}")
