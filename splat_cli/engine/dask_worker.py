"""Task of a worker of a Dask cluster: run one job in a child process, which ends with the worker."""

from __future__ import annotations

import os
import platform
import queue
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import dask
from distributed import Reschedule, Worker, get_worker
from distributed.comm import get_address_host

from splat_cli import __version__
from splat_cli.engine.job import Job, JobResult
from splat_cli.engine.local import describe_device, device_environments
from splat_cli.engine.process import run_job
from splat_cli.errors import UsageError
from splat_cli.io.folder_lock import wait_until_unlocked

LOCK_PATIENCE = 600.0  # seconds for the process of a lost worker to end and to release the run
TERMINATED = (128 + signal.SIGTERM, -signal.SIGTERM)  # exit codes of a command after SIGTERM
_POLL = 0.1  # seconds

_running: Counter[str] = Counter()
_free_devices: dict[str, queue.SimpleQueue[dict[str, str]]] = {}
_lock = threading.Lock()


def dask_setup(worker: Worker) -> None:
    """Dask's hook at the start of a worker: ignore signals; the command stops its workers after jobs have saved."""
    for name in ("SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)


def num_running(topic: str) -> int:
    """Number of jobs of a client that still run in this worker. topic: of the client's events."""
    return _running[topic]


class WorkerTask:
    """The task that this thread of a worker executes. topic: of events for the client."""

    def __init__(self, topic: str) -> None:
        self._worker, self._topic = get_worker(), topic
        self._key = self._worker.get_current_task()
        self.place = f"{platform.node()} ({self._worker.address})"

    @property
    def host(self) -> str:
        """The address at which other workers reach this one."""
        return str(get_address_host(self._worker.address))

    def is_dropped(self) -> bool:
        """Whether the client or the scheduler has cancelled it."""
        task = self._worker.state.tasks.get(self._key)
        return task is None or task.state == "cancelled"

    def must_end(self) -> bool:
        """Whether it is dropped, or the worker closes."""
        return self.is_dropped() or self._worker.status.name not in ("running", "paused")

    def send_event(self, *message: Any) -> None:
        """Send an event to the client."""
        self._worker.log_event(self._topic, message)


def run_on_worker(job: Job, device: str, version: str, topic: str) -> JobResult:
    """Run a job on a free device of this worker. UsageError if it cannot run here.

    It is interrupted when the client drops it. Rescheduled, to run on another worker, if this one closes. topic: of
    events for the client, (name of the job, text).
    """
    task = WorkerTask(topic)
    check_visible(job, version, task.place)

    def say(text: str) -> None:
        task.send_event(job.name, text)

    with counted(topic), free_device(device, task.must_end) as environment:
        place = ", ".join(filter(None, (task.place, describe_device(environment))))
        if job.run:
            wait_until_unlocked(job.folder / job.run, LOCK_PATIENCE, task.must_end, say)
        say(f"{'resumed' if job.is_begun() else 'runs'} on {place}")
        result = run_job(job, {**without_dask(), **environment}, place, task.must_end)
    if not task.is_dropped() and (task.must_end() or result.exit_code in TERMINATED):
        say(f"interrupted on {place}, to be continued elsewhere")
        raise Reschedule
    return result


def check_visible(job: Job, version: str, place: str) -> None:
    """UsageError if the worker has another version, or does not see the files of the job."""
    if version != __version__:
        raise UsageError(
            f"versions differ: splat {version} here, {__version__} on {place}; install the same on all machines"
        )
    for path in (job.folder, *(job.folder / one for one in (job.log, *job.inputs))):
        if not path.exists():
            raise UsageError(f"{path} is not visible on {place}: use a folder that all machines of the cluster share")


@contextmanager
def counted(topic: str) -> Iterator[None]:
    """Context in which a task counts for `num_running` of a topic."""
    with _lock:
        _running[topic] += 1
    try:
        yield
    finally:
        with _lock:
            _running[topic] -= 1


@contextmanager
def free_device(device: str, must_end: Callable[[], bool]) -> Iterator[dict[str, str]]:
    """Context with the environment variables of a device that no other job of this worker uses.

    Waits for one; raises Reschedule as soon as `must_end` returns True.
    """
    with _lock:
        if device not in _free_devices:
            _free_devices[device] = queue.SimpleQueue()
            for environment in device_environments(device):
                _free_devices[device].put(environment)
    free = _free_devices[device]
    while True:
        if must_end():
            raise Reschedule
        with suppress(queue.Empty):
            environment = free.get(timeout=_POLL)
            break
    try:
        yield environment
    finally:
        free.put(environment)


def without_dask() -> Mapping[str, str | None]:
    """Environment for `run_job` without variables that Dask sets for its workers (such as one thread for NumPy)."""
    variables: Mapping[str, Any] = dask.config.get("distributed.nanny.pre-spawn-environ", {})
    return {name: None for name, value in variables.items() if os.environ.get(name) == str(value)}
