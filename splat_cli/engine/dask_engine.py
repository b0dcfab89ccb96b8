"""Jobs on the workers of a Dask cluster."""

from __future__ import annotations

import dataclasses
import json
import pickle
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from distributed import CancelledError, Client, Future, KilledWorker

from splat_cli import __version__
from splat_cli.engine.dask_worker import num_running, run_on_worker
from splat_cli.engine.job import Job, JobResult
from splat_cli.engine.result_queue import ResultQueue
from splat_cli.errors import SplatError, UsageError

_SAVING = 90.0  # seconds in which interrupted jobs must save
_POLL = 0.2  # seconds
_WORKERS_CHECK_INTERVAL = 2.0  # seconds


class SchedulerLost(SplatError):
    """The connection to the scheduler is lost."""

    def __init__(self, advice: str = "; run the same command again to continue with the rest") -> None:
        super().__init__(f"the connection to the Dask scheduler is lost{advice}")


class DaskEngine:
    """An Engine that runs a job per device of each worker. A job whose worker is lost is run again on another one.

    Jobs wait here until a worker is free: the scheduler would assign them all at once, by durations that it does not
    know, and seldom moves them to a worker that becomes idle earlier.

    device: of the jobs. say: shows a line of progress. check: called often in `results`, may raise KeyboardInterrupt.
    """

    def __init__(self, client: Client, device: str, say: Callable[[str], None], check: Callable[[], None]) -> None:
        self._client, self._device, self._say, self._interrupted = client, device, say, check
        self._waiting: list[Job] = []
        self._jobs: dict[Future, Job] = {}
        self._results = ResultQueue[Future](self._check)
        self._topic = f"splat-{uuid.uuid4()}"
        self._num_threads, self._last_check = self._count_threads(), time.monotonic()
        client.subscribe_topic(self._topic, self._show)

    def submit(self, job: Job) -> None:
        """See Engine.submit."""
        self._waiting.append(job)
        self._results.expect()

    def _assign(self) -> None:
        """Give jobs to the scheduler, as many as workers have threads; one while there is no worker."""
        while self._waiting and len(self._jobs) < max(self._num_threads, 1):
            job = max(self._waiting, key=lambda job: job.priority)  # of equal ones, the first
            self._waiting.remove(job)
            call = remote_call(run_on_worker, visible_inputs(job), self._device, __version__, self._topic)
            future = self._client.submit(*call, key=f"{job.name}-{uuid.uuid4()}", priority=job.priority, pure=False)
            self._jobs[future] = job
            future.add_done_callback(self._results.put)

    def results(self) -> Iterator[JobResult]:
        """See Engine.results. Raises SchedulerLost."""
        for future in self._results.drain():
            yield self._result(future)

    def run_ranks(self, jobs: Mapping[int, Job]) -> JobResult | None:
        """See Engine.run_ranks. Raises SchedulerLost."""
        from splat_cli.engine.rank_group import RankGroup

        try:
            return RankGroup(self._client, self._device, False, self._say, self._interrupted).run_on_free(jobs)
        except SchedulerLost:
            raise
        except OSError as error:  # of a connection, as distributed raises them
            raise SchedulerLost from error
        except SplatError as error:
            return _failed(next(iter(jobs.values())), str(error), error.exit_code)

    def close(self) -> None:
        """See Engine.close."""
        self._waiting.clear()
        drop(self._client, list(self._jobs), self._topic)

    def _check(self) -> None:
        self._interrupted()
        if self._client.status == "closed":
            raise SchedulerLost
        self._check_workers()
        self._assign()

    def _check_workers(self) -> None:
        """Count the threads of the workers, and display a message when the last worker has left."""
        if time.monotonic() - self._last_check < _WORKERS_CHECK_INTERVAL:
            return
        before, self._num_threads, self._last_check = self._num_threads, self._count_threads(), time.monotonic()
        if before and not self._num_threads:
            self._say("All workers have left the cluster: waiting for others to join")

    def _count_threads(self) -> int:
        """Number of threads of all workers; 1 if the connection is lost."""
        try:
            return sum(self._client.nthreads().values())
        except OSError:  # of a lost connection
            return 1

    def _result(self, future: Future) -> JobResult:
        job = self._jobs.pop(future)
        try:
            result: JobResult = result_of(future)
        except KilledWorker as error:
            reason = f"{error.allowed_failures + 1} workers were lost while they ran it, see {job.log}"
            return _failed(job, reason, 1)
        future.release()  # else the job is run again if the worker that holds its result is lost
        return result

    def _show(self, event: tuple[float, tuple[str, str]]) -> None:
        name, text = event[1]
        self._say(f"{name}: {text}")


def _failed(job: Job, reason: str, exit_code: int) -> JobResult:
    """The result of a job that no worker could finish."""
    return JobResult(job, exit_code, 0.0, "", json.dumps({"error": reason, "exit_code": exit_code}), reason)


def visible_inputs(job: Job) -> Job:
    """The job with those inputs that exist, and its log: a worker that shares the folder sees them."""
    (job.folder / job.log).touch()
    return dataclasses.replace(job, inputs=tuple(path for path in job.inputs if (job.folder / path).exists()))


def result_of(future: Future) -> Any:
    """The result of a task. UsageError if its worker lacks this program, SchedulerLost if the connection is lost."""
    try:
        return future.result()
    except ImportError as error:
        raise lacks_program(error) from None
    except CancelledError:
        raise SchedulerLost from None


def lacks_program(error: ImportError) -> UsageError:
    """The error for a worker that cannot import this program."""
    return UsageError(f"a worker lacks splat {__version__} ({error}): install it on all machines of the cluster")


def drop(client: Client, futures: Sequence[Future], topic: str) -> None:
    """Cancel tasks, and wait until they have saved. topic: that of their events, which `num_running` takes."""
    left = [future for future in futures if not future.done()]
    if not left or client.status != "running":
        return
    client.cancel(left)
    end = time.monotonic() + _SAVING
    while time.monotonic() < end and any(client.run(num_running, topic, on_error="ignore").values()):
        time.sleep(_POLL)


def remote_call(function: Callable[..., Any], *arguments: Any) -> tuple[Callable[[bytes], Any], bytes]:
    """A remote call: (function, argument) to submit. The call raises ImportError if the worker lacks this program.

    The arguments are bytes, since the scheduler, which may lack this program, unpickles them. The function is local, so
    that it is pickled as code and not by its name.
    """

    def call(work: bytes) -> Any:
        import pickle
        import platform

        try:
            function, arguments = pickle.loads(work)
        except Exception as error:
            raise ImportError(f"{platform.node()}: {error}") from None
        return function(*arguments)

    return call, pickle.dumps((function, arguments))
