"""Ranks of one run on the workers of a Dask cluster: tasks that start together and end together."""

from __future__ import annotations

import queue
import secrets
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from distributed import Client, Future, KilledWorker

from splat_cli import __version__
from splat_cli.engine.dask_calls import SchedulerLost, Turn, drop, remote_call, result_of, visible_inputs
from splat_cli.engine.dask_worker import RankTask, follow, lead
from splat_cli.engine.job import Job, JobResult
from splat_cli.engine.workers import NAMES, Workers, by_host, chosen_workers, largest
from splat_cli.errors import SplatError, UsageError, one_line
from splat_cli.ranks.protocol import RankError

_POLL = 0.2  # seconds
_LOST_CHECK_INTERVAL = 2.0  # seconds
_PATIENCE = 120.0  # seconds in which lost workers may return before a run continues with fewer
_START = 120.0  # seconds until all ranks must run after rank 0 listens
_FIRST = 1_000_000  # Dask's priority of ranks: they wait for each other, jobs of batches do not


class RankGroup:
    """Runs jobs on several ranks.

    device: "auto", "cuda" or "cpu". can_grow: whether further workers may join the cluster. say: shows a line of
    progress. check: called often, may raise KeyboardInterrupt.
    """

    def __init__(
        self, client: Client, device: str, can_grow: bool, say: Callable[[str], None], check: Callable[[], None]
    ) -> None:
        self._client, self._can_grow, self._say, self._interrupted = client, can_grow, say, check
        self._workers, self._turn = Workers(client, device, say), Turn(client)
        self._were_there = False  # whether there were enough workers once: lost ones may return

    def run(self, jobs: Mapping[int, Job]) -> JobResult:
        """The result of rank 0, which runs a job.

        jobs: the job for each possible number of ranks, see `_wait`. RankError if a worker is lost or closes,
        UsageError if the job cannot run on this cluster; also SchedulerLost and KeyboardInterrupt. All ranks have ended
        afterwards, and have saved if possible.
        """
        sizes = sorted(jobs, reverse=True)
        tasks: _Tasks | None = None
        jobs = {size: visible_inputs(job) for size, job in jobs.items()}
        try:
            workers = self._wait(jobs[sizes[0]], sizes)
            if (size := len(workers)) < sizes[0]:
                self._say(f"The cluster has no {sizes[0]} {NAMES[self._workers.kind]}: continuing with --gpus {size}")
            tasks = _Tasks(self._client, jobs[size], workers, self._workers.kind)
            while tasks.result is None:
                self._check()
                if line := tasks.handle_event():
                    self._say(line)
                if tasks.num_running == size:
                    self._turn.give_back()
            return tasks.result
        except OSError as error:  # distributed raises it for a lost connection
            raise SchedulerLost from error
        finally:
            if tasks:
                tasks.end()
            self._turn.give_back()

    def run_on_free(self, jobs: Mapping[int, Job]) -> JobResult | None:
        """`run` on the workers that are free now; None if they are too few for any of the jobs."""
        try:
            self._workers.look(visible_inputs(next(iter(jobs.values()))))
            free = self._workers.free(self._workers.places())
        except OSError as error:
            raise SchedulerLost from error
        size = largest(self._workers.present(), free, list(jobs), self._workers.kind)
        return None if size is None else self.run({size: jobs[size]})

    def _check(self) -> None:
        self._interrupted()
        if self._client.status == "closed":
            raise SchedulerLost

    def _wait(self, job: Job, sizes: Sequence[int]) -> list[str]:
        """Workers of all ranks of a job, each with a free place.

        sizes: possible numbers of ranks, in descending order: the first, or the largest for which the cluster has
        enough workers. Waits up to _PATIENCE seconds for workers that join or return after a loss. UsageError if too
        few can join, or if the job cannot run on them.

        Takes the turn as soon as the cluster has enough workers: other commands start no job until these are free and
        all ranks run. Two commands that each hold some of the workers would deadlock.
        """
        workers, end, has_said = self._workers, time.monotonic() + _PATIENCE, False
        while True:
            self._check()
            workers.look(job)
            infos, places, kind = workers.present(), workers.places(), workers.kind
            can_change = self._can_grow or self._were_there
            is_late = workers.is_known() and (not can_change or time.monotonic() > end)
            size = (largest(infos, places, sizes, kind) if is_late else None) or sizes[0]
            if chosen_workers(infos, places, size, kind) is None:
                self._turn.give_back()
                if not self._were_there and workers.is_known():
                    self._refuse(infos, places, sizes[-1])
            elif self._turn.take() and (chosen := chosen_workers(infos, workers.free(places), size, kind)):
                self._were_there = True
                return chosen
            if not has_said:
                self._say(f"Waiting for {size} free {NAMES[kind]} of the cluster")
                has_said = True
            time.sleep(_POLL)

    def _refuse(self, infos: Mapping[str, Any], places: Mapping[str, int], size: int) -> None:
        """UsageError if no host has enough CPU workers, or the cluster has too few workers and cannot grow."""
        kind, num = self._workers.kind, sum(places.values())
        if kind == "cpu" and max(map(len, by_host(infos, places).values()), default=0) < size <= num:
            raise UsageError(
                f"--gpus {size} on the CPU: processes share memory, but no host has {size} workers; start them on one "
                "host, or use GPUs, which NCCL connects across hosts"
            )
        if not self._can_grow and num < size:
            raise UsageError(f"--gpus {size}: too few {NAMES[kind]} in the cluster: {num}; each process needs one")


class _Tasks:
    """The tasks of the ranks of one job, one worker each, and their events. result: result of rank 0.

    Rank 0 starts at once; the others start when it listens.
    """

    def __init__(self, client: Client, job: Job, workers: list[str], device: str) -> None:
        self._client, self._job, self._size, self.num_running = client, job, len(workers), 0
        self._topic, self._futures, self._workers = f"splat-{uuid.uuid4()}", list[Future](), workers
        self._events, self._last_lost_check = queue.SimpleQueue[tuple[Any, ...]](), 0.0
        self._listens_since = 0.0
        self.result: JobResult | None = None
        key = secrets.token_bytes(32)
        self._work = RankTask(job, self._size, device, __version__, self._topic, key)
        client.subscribe_topic(self._topic, lambda event: self._events.put(tuple(event[1])))
        self._submit(lead)

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
            self._listens_since = time.monotonic()
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
                self.result = result_of(self._futures[rank]) or self.result  # other ranks have no result
            except KilledWorker:
                raise RankError(f"the worker of {name} is lost") from None
            except OSError as error:  # on the worker: cannot listen at an address, disk full
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
        options = {"key": key, "priority": _FIRST, "pure": False, "workers": [self._workers[rank]]}
        self._futures.append(self._client.submit(*call, **options))
        self._futures[rank].add_done_callback(lambda _: self._events.put(("ended", rank)))

    def _check_workers(self) -> None:
        if time.monotonic() - self._last_lost_check < _LOST_CHECK_INTERVAL:
            return
        present, self._last_lost_check = self._client.nthreads(), time.monotonic()
        for rank, worker in enumerate(self._workers):
            if worker not in present:
                raise RankError(f"the worker of rank {rank} of {self._size} is lost: {worker}")
        is_late = self._listens_since and time.monotonic() - self._listens_since > _START
        if is_late and (missing := self._size - self.num_running):
            raise RankError(f"{missing} of {self._size} ranks have not started within {_START:.0f} s")
