"""Jobs on the workers of a Dask cluster."""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from distributed import Client, Future, KilledWorker, as_completed

from splat_cli import __version__
from splat_cli.engine.dask_calls import SchedulerLost, Turn, drop, remote_call, result_of, visible_inputs
from splat_cli.engine.dask_worker import WorkerFailed, run_on_worker
from splat_cli.engine.job import Job, JobResult, failed_result
from splat_cli.engine.rank_group import RankGroup
from splat_cli.engine.workers import Workers
from splat_cli.errors import SplatError, reason_of

_POLL = 0.1  # seconds
_LOOK_INTERVAL = 1.0  # seconds between two checks for free places
_MAX_FAILURES = 2  # failures after which a worker gets no more jobs


class DaskEngine:
    """An Engine that runs one job per place of each worker. If a worker is lost, Dask runs its job on another one.

    Jobs wait here until a place is free. The scheduler would assign them all at once without knowing their durations,
    and seldom moves them to a worker that becomes idle earlier.

    A job that a worker cannot start, such as on a full disk, goes to another worker.

    device: device of the jobs. say: shows a line of progress. check: called often in `results`, may raise
    KeyboardInterrupt.
    """

    def __init__(self, client: Client, device: str, say: Callable[[str], None], check: Callable[[], None]) -> None:
        self._client, self._device, self._say, self._interrupted = client, device, say, check
        self._workers, self._turn, self._next_look = Workers(client, device, say), Turn(client), 0.0
        self._waiting: list[Job] = []
        self._running: dict[Future, tuple[Job, set[str]]] = {}  # with the workers that may run it; all if empty
        self._ended = as_completed(loop=client.loop)
        self._failures: dict[str, dict[str, WorkerFailed]] = defaultdict(dict)  # worker -> name of job -> failure
        self._topic = f"splat-{uuid.uuid4()}"
        client.subscribe_topic(self._topic, self._show)

    def submit(self, job: Job) -> None:
        """See Engine.submit."""
        self._waiting.append(job)
        self._next_look = 0.0

    def results(self) -> Iterator[JobResult]:
        """See Engine.results. Raises SchedulerLost."""
        while self._waiting or self._running:
            found = self._next_results()
            yield from found
            if not found:
                time.sleep(_POLL)

    def run_ranks(self, jobs: Mapping[int, Job]) -> JobResult | None:
        """See Engine.run_ranks. Raises SchedulerLost."""
        try:
            return RankGroup(self._client, self._device, False, self._say, self._interrupted).run_on_free(jobs)
        except SchedulerLost:
            raise
        except SplatError as error:
            return failed_result(next(iter(jobs.values())), str(error), error.exit_code)

    def close(self) -> None:
        """See Engine.close."""
        self._waiting.clear()
        drop(self._client, list(self._running), self._topic)

    def _next_results(self) -> list[JobResult]:
        """Results that have arrived. Assigns waiting jobs to free places."""
        self._interrupted()
        if self._client.status == "closed":
            raise SchedulerLost
        try:
            found = [self._result(future) for future in self._ended.next_batch(block=False) if future in self._running]
            if found or time.monotonic() > self._next_look:
                self._next_look = time.monotonic() + _LOOK_INTERVAL
                found += self._assign()
        except OSError as error:  # distributed raises it for a lost connection
            raise SchedulerLost from error
        return [result for result in found if result]

    def _assign(self) -> list[JobResult | None]:
        """Assign waiting jobs to free places. Returns failures of jobs that no worker can run."""
        jobs = sorted(self._waiting, key=lambda job: -job.priority)  # stable: equal priorities keep their order
        for job in jobs[:1] or [job for job, _ in self._running.values()][:1]:
            self._workers.look(dataclasses.replace(job, log=job.log.parent, inputs=()))  # needed by all jobs
        self._take_back()
        places = self._workers.places(shared=True)
        if not jobs or not places or not self._turn.take():
            return []
        failures = []
        try:
            free = self._workers.free(places)
            for job in jobs:
                if len(self._running) < sum(places.values()):  # the scheduler may not know the newest tasks yet
                    failures.append(self._give(job, free))
        finally:
            self._turn.give_back()
        return failures

    def _take_back(self) -> None:
        """Queue jobs again if all their workers have left: Dask does not move these jobs, even if allowed to."""
        for future, (job, workers) in list(self._running.items()):
            if workers and self._workers.threads and not workers & self._workers.threads.keys():
                del self._running[future]
                future.cancel()
                self._waiting.insert(0, job)

    def _give(self, job: Job, free: dict[str, int]) -> JobResult | None:
        """Give the job to a worker with a free place, if there is one. Returns its failure if no worker can run it."""
        usable = {worker for worker in free if self._may_run(worker, job)}
        if usable and not any(free[worker] for worker in usable):
            return None
        self._waiting.remove(job)
        if not usable:
            return self._failed(job)
        free[max(usable, key=lambda worker: free[worker])] -= 1
        try:
            call = remote_call(run_on_worker, visible_inputs(job), self._workers.kind, __version__, self._topic)
        except OSError as error:
            return failed_result(job, f"{error.filename}: {reason_of(error)}")
        workers = set() if usable == self._workers.threads.keys() else usable
        options = {"key": f"{job.name}-{uuid.uuid4()}", "priority": job.priority, "pure": False}
        future = self._client.submit(*call, workers=list(workers) or None, **options)
        self._running[future] = job, workers
        self._ended.add(future)
        return None

    def _may_run(self, worker: str, job: Job) -> bool:
        failures = self._failures.get(worker, {})
        return job.name not in failures and len(failures) < _MAX_FAILURES

    def _failed(self, job: Job) -> JobResult:
        """The result of a job that no worker can run."""
        own = [failures.pop(job.name) for failures in self._failures.values() if job.name in failures]
        if len(own) == 1:  # one failure counts against the worker, several count against the job
            self._failures[own[0].worker][job.name] = own[0]
        error = own[-1] if own else next(one for failures in self._failures.values() for one in failures.values())
        return failed_result(job, str(error) if own else f"no worker is left: {error}", error.exit_code)

    def _result(self, future: Future) -> JobResult | None:
        """The result of a task, None if its job waits for another worker."""
        job, _ = self._running.pop(future)
        try:
            result: JobResult = result_of(future)
        except KilledWorker as error:
            return failed_result(
                job, f"{error.allowed_failures + 1} workers were lost while they ran it, see {job.log}"
            )
        except WorkerFailed as error:
            failures = self._failures[error.worker]
            failures[job.name] = error
            last = "; this worker gets no more jobs" if len(failures) == _MAX_FAILURES else ""
            self._say(f"{job.name}: {error}{last}")
            self._waiting.insert(0, job)
            return None
        future.release()  # otherwise the job runs again if the worker that holds its result is lost
        return result

    def _show(self, event: tuple[float, tuple[str, str]]) -> None:
        name, text = event[1]
        self._say(f"{name}: {text}")
