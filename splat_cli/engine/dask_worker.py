"""Tasks of Dask workers: each runs a job, or a rank of a job, in a child process that ends with the worker."""

from __future__ import annotations

import dataclasses
import os
import platform
import queue
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import dask
from distributed import Reschedule, Worker, get_worker
from distributed.comm import get_address_host

from splat_cli.engine.job import Job, JobResult
from splat_cli.engine.process import describe_device, device_environments, run_job, start_child, wait_for_end
from splat_cli.errors import SplatError, UsageError, reason_of
from splat_cli.ranks.links import accepted, joined, listening
from splat_cli.ranks.shared_memory import make_shared_memory

_LOCK_PATIENCE = 600.0  # seconds for the process of a lost worker to end and to release the run
_TERMINATED = (128 + signal.SIGTERM, -signal.SIGTERM)  # exit codes of a command after SIGTERM
_POLL = 0.1  # seconds

_running = set[str]()  # keys of tasks; Dask forgets a cancelled task before its function returns
_lock = threading.Lock()


@dataclass(frozen=True)
class Failure:
    """Reason why a worker cannot start a job that another worker may start. worker: its address."""

    worker: str
    reason: str
    exit_code: int


def dask_setup(worker: Worker) -> None:
    """Called by Dask at the start of a worker: ignores signals. The command stops its workers after jobs have saved."""
    for name in ("SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)


def still_running(keys: Set[str]) -> bool:
    """Whether one of these tasks, possibly cancelled, still runs in this worker."""
    return not _running.isdisjoint(keys)


@cache
def _free_devices(device: str) -> queue.SimpleQueue[dict[str, str]]:
    """Environment variables of the devices that no job of this worker uses; Dask's resources count, but name none."""
    free = queue.SimpleQueue[dict[str, str]]()
    for environment in device_environments(device):
        free.put(environment)
    return free


class _Task:
    """The task that this thread of a worker executes. topic: topic of events for the client."""

    def __init__(self, topic: str) -> None:
        self._worker, self._topic = get_worker(), topic
        self._key, self.address = self._worker.get_current_task(), self._worker.address
        self.place = f"{platform.node()} ({self.address})"

    def is_dropped(self) -> bool:
        """Whether the client or the scheduler has cancelled it."""
        task = self._worker.state.tasks.get(self._key)
        return task is None or task.state == "cancelled"

    def must_end(self) -> bool:
        """Whether the job is dropped, or the worker closes."""
        return self.is_dropped() or self._worker.status.name not in ("running", "paused")

    def send_event(self, event: Any) -> None:
        """Send an event to the client."""
        self._worker.log_event(self._topic, event)

    @contextmanager
    def on_free_device(self, device: str) -> Iterator[tuple[str, dict[str, str]]]:
        """Context with a device that no other job of this worker uses: name for messages, environment variables.

        Waits for a device; raises Reschedule as soon as the task must end.
        """
        with _lock:
            free = _free_devices(device)
        _running.add(self._key)
        try:
            environment = self._taken(free)
            try:
                yield ", ".join(filter(None, (self.place, describe_device(environment)))), environment
            finally:
                free.put(environment)
        finally:
            _running.discard(self._key)

    def _taken(self, free: queue.SimpleQueue[dict[str, str]]) -> dict[str, str]:
        while not self.must_end():
            with suppress(queue.Empty):
                return free.get(timeout=_POLL)
        raise Reschedule


def run_on_worker(job: Job, device: str, topic: str) -> JobResult | Failure:
    """Run a job on a free device of this worker, "cuda" or "cpu". Failure if it cannot start here.

    The job is interrupted when the client drops it. If this worker closes, Dask runs the job again on another one.
    topic: topic of events for the client; each is a line of progress.
    """
    task = _Task(topic)

    def say(text: str) -> None:
        task.send_event(f"{job.name}: {text}")

    try:
        check_visible(job.paths(), task.place)
        with task.on_free_device(device) as (place, environment):
            job.wait_for_run(_LOCK_PATIENCE, task.must_end, say)
            say(f"{'resumed' if job.is_begun() else 'runs'} on {place}")
            result = run_job(job, {**_without_dask(), **environment}, place, task.must_end)
    except OSError as error:  # a full disk, a log that cannot be written, no memory for a process
        reason = f"{error.filename or 'the process'}: {reason_of(error)}"
        return Failure(task.address, f"{task.place} cannot run it ({reason})", 1)
    except UsageError as error:
        return Failure(task.address, str(error), error.exit_code)
    if not task.is_dropped() and (task.must_end() or result.exit_code in _TERMINATED):
        say(f"interrupted on {place}, to be continued elsewhere")
        raise Reschedule
    return result


def check_visible(paths: Sequence[Path], place: str) -> None:
    """UsageError if the worker does not see these files and folders."""
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path} is not visible on {place}: use a folder that all machines of the cluster share")


def _without_dask() -> Mapping[str, str | None]:
    """Environment for `run_job` without variables that Dask sets for its workers (such as one thread for NumPy)."""
    variables: Mapping[str, Any] = dask.config.get("distributed.nanny.pre-spawn-environ", {})
    return {name: None for name, value in variables.items() if os.environ.get(name) == str(value)}


@dataclass(frozen=True)
class RankTask:
    """Arguments of the tasks of all ranks of a job. key: authenticates their connections. device: "cuda" or "cpu"."""

    job: Job
    size: int
    device: str
    topic: str
    key: bytes

    def name(self, rank: int) -> str:
        """Name of a rank for messages."""
        return f"rank {rank} of {self.size}"


def lead(work: RankTask) -> JobResult:
    """Run the job as rank 0, once all others are connected.

    Events: ("waits", 0, text), ("listens", 0, address, paths of shared memory), ("runs", 0, text).
    """
    task, job = _Task(work.topic), work.job
    check_visible(job.paths(), task.place)

    def say(text: str) -> None:
        task.send_event(("waits", 0, text))

    def check() -> None:
        if task.must_end():
            raise Reschedule

    with task.on_free_device(work.device) as (place, environment), ExitStack() as connections:
        job.wait_for_run(_LOCK_PATIENCE, task.must_end, say)
        files = make_shared_memory(work.size) if work.device == "cpu" and work.size > 1 else []
        for file in files:
            connections.callback(os.close, file)
        server = connections.enter_context(listening(str(get_address_host(task.address))))
        paths = [f"/proc/{os.getpid()}/fd/{file}" for file in files]
        task.send_event(("listens", 0, server.getsockname()[:2], paths))
        links = connections.enter_context(accepted(server, work.size, work.key, check))
        links = dataclasses.replace(links, files=tuple(files))
        task.send_event(("runs", 0, f"runs on {place}"))
        variables = {**_without_dask(), **environment, **(links.environment() if work.size > 1 else {})}
        return run_job(job, variables, place, task.must_end, links.descriptors(), connections.close)


def follow(work: RankTask, rank: int, address: tuple[str, int], paths: Sequence[str]) -> None:
    """Run another rank until its process ends. address: address of rank 0; paths: paths of shared memory.

    Events: ("runs", rank, text), ("closes", rank, place) if the worker closes before it ends. SplatError if rank 0
    cannot be reached.
    """
    task = _Task(work.topic)
    check_visible(work.job.paths(), task.place)
    with task.on_free_device(work.device) as (place, environment):
        with ExitStack() as connections:
            try:
                files = []
                for path in paths:
                    files.append(os.open(path, os.O_RDWR))
                    connections.callback(os.close, files[-1])
                links = connections.enter_context(joined(address, work.key, rank))
            except OSError as error:
                where = f"rank 0 at {address[0]}, port {address[1]}"
                advice = "workers must be able to connect to each other"
                raise SplatError(f"{task.place} cannot reach {where} ({reason_of(error)}): {advice}") from None
            (messages,), (heartbeat,) = links.messages, links.heartbeats
            module = ("splat_cli.run.follower", *map(str, (messages, rank, work.size, *files)))
            variables = {**_without_dask(), **environment}
            process = start_child(module, work.job.folder, variables, (messages, *files), stdout=heartbeat)

        def tell() -> None:  # the process ends with rank 0, which needs it to save
            if not task.is_dropped():
                task.send_event(("closes", rank, task.place))

        with process:
            task.send_event(("runs", rank, f"runs on {place}"))
            wait_for_end(process, task.must_end, tell)
