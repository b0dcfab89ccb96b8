"""Jobs on the workers of a Dask cluster.

Dask runs the tasks, by priority, and moves them from lost workers. Three things are written here:

- Jobs wait in this process until a place is free. The scheduler would assign them all at once, without knowing their
  durations, and no worker would become free for ranks.
- A job goes to another worker if one cannot start it. With `retries`, it may go to the same one again.
- A job is taken back when all workers that may run it have left. The scheduler would wait for them.

Results are looked for each time that workers and places are counted; `as_completed` would only wait for results.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping

from distributed import Client, Future, KilledWorker

from splat_cli.engine.dask_calls import SchedulerLost, drop, remote_call, result_of
from splat_cli.engine.dask_worker import Failure, run_on_worker
from splat_cli.engine.engine import Engine
from splat_cli.engine.job import Job, JobResult, failed_result
from splat_cli.engine.rank_group import RankGroup
from splat_cli.engine.workers import Turn, Workers
from splat_cli.errors import SplatError, UsageError, reason_of

_MAX_FAILURES = 2  # failures after which a worker gets no more jobs


class DaskEngine(Engine):
    """An Engine that runs one job per place of each worker. A job that a worker cannot start goes to another one.

    device: device of the jobs.
    """

    _poll = 0.5  # seconds; each time, the scheduler is asked for workers and places

    def __init__(self, client: Client, device: str, check: Callable[[], None], say: Callable[[str], None]) -> None:
        super().__init__(check, say)
        self._client, self._device = client, device
        self._workers, self._turn = Workers(client, device, say), Turn(client)
        self._running: dict[Future, tuple[Job, set[str]]] = {}  # with the workers that may run it; all if empty
        self._failures: dict[str, dict[str, Failure]] = defaultdict(dict)  # name of job -> worker -> failure
        self._topic = f"splat-{uuid.uuid4()}"
        client.subscribe_topic(self._topic, lambda event: say(event[1]))

    def run_ranks(self, jobs: Mapping[int, Job]) -> JobResult | None:
        """See Engine.run_ranks. Raises SchedulerLost."""
        try:
            return RankGroup(self._client, self._device, False, self._say, self._check).run_on_free(jobs)
        except SchedulerLost:
            raise
        except SplatError as error:
            return failed_result(next(iter(jobs.values())), str(error), error.exit_code)

    def close(self) -> None:
        self._waiting.clear()
        drop(self._client, list(self._running))

    def _next_results(self) -> list[JobResult]:
        """See Engine._next_results. Raises SchedulerLost."""
        if self._client.status == "closed":
            raise SchedulerLost
        try:
            ended = [self._result(future) for future in list(self._running) if future.done()]
            return [result for result in [*ended, *self._assign()] if result]
        except OSError as error:  # distributed raises it for a lost connection
            raise SchedulerLost from error

    def _assign(self) -> list[JobResult | None]:
        """Assign waiting jobs to free places. Returns failures of jobs that no worker can run."""
        jobs = self._in_order()
        self._workers.look([(job.folder / job.log).parent for job in jobs[:1]])  # which all jobs need
        self._take_back()
        places = self._workers.places(shared=True)
        if not jobs or not places or not self._turn.take():
            return []
        try:
            free = self._workers.free(places)
            # the scheduler may not know the newest tasks yet
            return [self._give(job, free) for job in jobs if len(self._running) < sum(places.values())]
        finally:
            self._turn.give_back()

    def _take_back(self) -> None:
        for future, (job, workers) in list(self._running.items()):
            if workers and self._workers.threads and not workers & self._workers.threads.keys():
                del self._running[future]
                future.cancel()
                self._waiting.insert(0, job)

    def _give(self, job: Job, free: dict[str, int]) -> JobResult | None:
        """Give the job to a worker with a free place, if there is one. Returns its failure if no worker can run it."""
        failed = self._failures[job.name]
        usable = {one for one in free if one not in failed and self._num_failures(one) < _MAX_FAILURES}
        if usable and not any(free[worker] for worker in usable):
            return None
        self._waiting.remove(job)
        if not usable:
            return self._failed(job)
        free[max(usable, key=lambda worker: free[worker])] -= 1
        try:
            call = remote_call(run_on_worker, job.visible(), self._workers.kind, self._topic)
        except OSError as error:
            return failed_result(job, f"{error.filename}: {reason_of(error)}")
        workers = set() if usable == self._workers.threads.keys() else usable
        options = {"key": f"{job.name}-{uuid.uuid4()}", "priority": job.priority, "pure": False}
        self._running[self._client.submit(*call, workers=list(workers) or None, **options)] = job, workers
        return None

    def _num_failures(self, worker: str) -> int:
        return sum(worker in workers for workers in self._failures.values())

    def _failed(self, job: Job) -> JobResult:
        """The result of a job that no worker can run."""
        own = list(self._failures[job.name].values())
        if len(own) > 1:  # one failure counts against the worker, several count against the job
            del self._failures[job.name]
        last = own[-1] if own else next(one for workers in self._failures.values() for one in workers.values())
        return failed_result(job, last.reason if own else f"no worker is left: {last.reason}", last.exit_code)

    def _result(self, future: Future) -> JobResult | None:
        """The result of a task, None if its job waits for another worker."""
        job, _ = self._running.pop(future)
        try:
            result: JobResult | Failure = result_of(future)
        except KilledWorker as error:
            num = error.allowed_failures + 1
            return failed_result(job, f"{num} workers were lost while they ran it, see {job.log}")
        except UsageError:  # a new worker lacks the program; it is refused from now on
            self._waiting.insert(0, job)
            return None
        future.release()  # otherwise the job runs again if the worker that holds its result is lost
        if isinstance(result, JobResult):
            return result
        self._failures[job.name][result.worker] = result
        is_last = self._num_failures(result.worker) == _MAX_FAILURES
        self._say(f"{job.name}: {result.reason}{'; this worker gets no more jobs' * is_last}")
        self._waiting.insert(0, job)
        return None
