"""Ranks of one run on the workers of a Dask cluster: tasks that start together and end together.

Dask starts each task for itself. Here, a command chooses free workers for all ranks while it holds a lock (Turn), binds
each task to its worker, and ends all tasks if one is lost.
"""

from __future__ import annotations

import math
import queue
import secrets
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from distributed import Client, Future, KilledWorker

from splat_cli.engine.dask_calls import SchedulerLost, drop, remote_call, result_of
from splat_cli.engine.dask_worker import RankTask, follow, lead
from splat_cli.engine.job import Job, JobResult
from splat_cli.engine.workers import NAMES, Turn, Workers
from splat_cli.errors import SplatError, UsageError, one_line
from splat_cli.ranks.protocol import RankError

_POLL = 0.2  # seconds
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
        jobs = {size: job.visible() for size, job in jobs.items()}
        try:
            workers = self._wait(jobs[sizes[0]].paths(), sizes)
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
            self._workers.look(next(iter(jobs.values())).visible().paths())
            free = self._workers.free(self._workers.places())
        except OSError as error:
            raise SchedulerLost from error
        sizes = [size for size in jobs if self._workers.choose(free, size)]
        return self.run({max(sizes): jobs[max(sizes)]}) if sizes else None

    def _check(self) -> None:
        self._interrupted()
        if self._client.status == "closed":
            raise SchedulerLost

    def _wait(self, paths: Sequence[Path], sizes: Sequence[int]) -> list[str]:
        """Workers of all ranks of a job, each with a free place. They see `paths`.

        sizes: possible numbers of ranks, in descending order: the first, or the largest for which the cluster has
        enough workers. Waits up to _PATIENCE seconds for workers that join or return after a loss. UsageError if too
        few can join, or if the job cannot run on them.

        Takes the turn as soon as the cluster has enough workers: other commands start no job until these are free and
        all ranks run. Two commands that each hold some of the workers would deadlock.
        """
        workers, end, has_said = self._workers, time.monotonic() + _PATIENCE, False
        while True:
            self._check()
            workers.look(paths)
            places, can_change = workers.places(), self._can_grow or self._were_there
            is_late = workers.is_known() and (not can_change or time.monotonic() > end)
            possible = [size for size in sizes if workers.choose(places, size)] if is_late else []
            size = max(possible, default=sizes[0])
            if workers.choose(places, size) is None:
                self._turn.give_back()
                if not self._were_there and workers.is_known():
                    self._refuse(places, sizes[-1])
            elif self._turn.take() and (chosen := workers.choose(workers.free(places), size)):
                self._were_there = True
                return chosen
            if not has_said:
                self._say(f"Waiting for {size} free {NAMES[workers.kind]} of the cluster")
                has_said = True
            time.sleep(_POLL)

    def _refuse(self, places: Mapping[str, int], size: int) -> None:
        """UsageError if no host has enough CPU workers, or the cluster has too few workers and cannot grow."""
        kind, num = self._workers.kind, sum(places.values())
        if kind == "cpu" and num >= size and self._workers.choose(places, size) is None:
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

    def __init__(self, client: Client, job: Job, workers: Sequence[str], device: str) -> None:
        self._client, self._workers, self._futures, self.num_running = client, workers, list[Future](), 0
        self._topic, self._events = f"splat-{uuid.uuid4()}", queue.SimpleQueue[tuple[Any, ...]]()
        self._work = RankTask(job, len(workers), device, self._topic, secrets.token_bytes(32))
        self._deadline = math.inf  # when all ranks must run
        self.result: JobResult | None = None
        client.subscribe_topic(self._topic, lambda event: self._events.put(event[1]))
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
        name = self._work.name(rank)
        if kind == "listens":
            if len(self._futures) > 1:
                raise RankError(f"the worker of {name} was lost and has reconnected")
            self._deadline = time.monotonic() + _START
            for _ in self._workers[1:]:
                self._submit(follow, len(self._futures), *details)
        elif kind == "runs":
            self.num_running += 1
        elif kind == "closes":
            raise RankError(f"the worker of {name} closes: {details[0]}")
        elif kind == "ended":
            self._end_rank(rank)
        return f"{name.capitalize()} {details[0]}" if kind in ("waits", "runs") else None

    def end(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        drop(self._client, self._futures)
        self._client.unsubscribe_topic(self._topic)

    def _submit(self, function: Callable[..., Any], *details: Any) -> None:
        """Submit the task of the next rank to its worker."""
        rank = len(self._futures)
        call = remote_call(function, self._work, *details)
        options = {"priority": _FIRST, "pure": False, "workers": [self._workers[rank]]}
        self._futures.append(self._client.submit(*call, key=f"{self._topic}-rank-{rank}", **options))
        self._futures[rank].add_done_callback(lambda _: self._events.put(("ended", rank)))

    def _end_rank(self, rank: int) -> None:
        try:
            self.result = result_of(self._futures[rank]) or self.result  # other ranks have no result
        except KilledWorker:
            raise RankError(f"the worker of {self._work.name(rank)} is lost") from None
        except OSError as error:  # on the worker: cannot listen at an address, disk full
            raise SplatError(f"the worker of {self._work.name(rank)} failed: {one_line(error)}") from None

    def _check_workers(self) -> None:
        present = self._client.nthreads()
        for rank, worker in enumerate(self._workers):
            if worker not in present:
                raise RankError(f"the worker of {self._work.name(rank)} is lost: {worker}")
        if time.monotonic() > self._deadline and (missing := len(self._workers) - self.num_running):
            raise RankError(f"{missing} of {len(self._workers)} ranks have not started within {_START:.0f} s")
