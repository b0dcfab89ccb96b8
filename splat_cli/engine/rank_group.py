"""Ranks of one run on the workers of a Dask cluster: tasks that start together and end together."""

from __future__ import annotations

import queue
import secrets
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

from distributed import Client, Future, KilledWorker, Lock

from splat_cli import __version__
from splat_cli.engine.dask_engine import LOST, drop, remote_call, result_of
from splat_cli.engine.free_workers import FreeWorkers
from splat_cli.engine.job import Job, JobResult
from splat_cli.engine.rank_worker import RankTask, follow, lead
from splat_cli.errors import SplatError
from splat_cli.ranks.protocol import RankError

_POLL = 0.2  # seconds
_CENSUS = 2.0  # seconds between two looks for lost workers
_LOCK = "splat-ranks"


class RankGroup:
    """Runs jobs on several ranks. Arguments: see FreeWorkers."""

    def __init__(
        self, client: Client, device: str, can_grow: bool, say: Callable[[str], None], check: Callable[[], None]
    ) -> None:
        self._client, self._say, self._interrupted = client, say, check
        self._free_workers = FreeWorkers(client, device, can_grow, say, self._check)

    def run(self, job: Job, size: int) -> JobResult:
        """The result of rank 0 of `size`, which runs the job.

        RankError where a worker is lost or closes, UsageError where the job cannot run on this cluster,
        KeyboardInterrupt. All ranks have ended afterwards, and have saved where they could.
        """
        topic, messages, futures = f"splat-{uuid.uuid4()}", queue.SimpleQueue[tuple[Any, ...]](), list[Future]()
        self._client.subscribe_topic(topic, lambda event: messages.put(tuple(event[1])))

        def submit(worker: str, function: Callable[..., Any], *arguments: Any) -> None:
            number, key = len(futures), f"{job.name}-rank-{len(futures)}-{uuid.uuid4()}"
            call = remote_call(function, *arguments)
            futures.append(self._client.submit(*call, workers=[worker], key=key, pure=False))
            futures[-1].add_done_callback(lambda _: messages.put(("ended", number)))

        try:
            with ExitStack() as turn:
                self._take_turn(turn)
                workers, device = self._free_workers.wait(job, size)
                work = RankTask(job, size, device, __version__, topic, secrets.token_bytes(32))
                submit(workers[0], lead, work)
                num_running = 0
                for kind, rank, *details in self._watched(messages, workers):
                    if kind == "listens":
                        if len(futures) > 1:
                            raise RankError(f"the worker of rank 0 of {size} was lost and has returned")
                        for number, worker in enumerate(workers[1:], 1):
                            submit(worker, follow, work, number, *details)
                    elif kind == "says":
                        self._say(f"Rank {rank} of {size} {details[0]}")
                    elif kind == "runs":
                        self._say(f"Rank {rank} of {size} runs on {details[0]}")
                        num_running += 1
                        if num_running == size:
                            turn.close()
                    elif kind == "closes":
                        raise RankError(f"the worker of rank {rank} of {size} closes: {details[0]}")
                    elif result := self._result(futures[rank], rank, size):
                        return result
            raise AssertionError
        finally:
            drop(self._client, futures, topic)
            self._client.unsubscribe_topic(topic)

    def _check(self) -> None:
        self._interrupted()
        if self._client.status == "closed":
            raise SplatError(LOST)

    def _take_turn(self, turn: ExitStack) -> None:
        """One command at a time takes workers: of two that had some each, both would wait for ever."""
        with self._client.as_current():
            lock = Lock(_LOCK)
        while not lock.acquire(timeout=_POLL):
            self._check()
        turn.callback(lock.release)

    def _watched(self, messages: queue.SimpleQueue[tuple[Any, ...]], workers: list[str]) -> Iterator[tuple[Any, ...]]:
        """Messages of the tasks as they arrive. RankError where a worker is lost."""
        last = time.monotonic()
        while True:
            self._check()
            with suppress(queue.Empty):
                yield messages.get(timeout=_POLL)
            if time.monotonic() - last > _CENSUS:
                present, last = self._client.nthreads(), time.monotonic()
                for rank, worker in enumerate(workers):
                    if worker not in present:
                        raise RankError(f"the worker of rank {rank} of {len(workers)} is lost: {worker}")

    @staticmethod
    def _result(future: Future, rank: int, size: int) -> JobResult | None:
        """That of rank 0; others have none."""
        try:
            result: JobResult | None = result_of(future)
        except KilledWorker:
            raise RankError(f"the worker of rank {rank} of {size} is lost") from None
        return result
