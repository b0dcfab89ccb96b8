"""What a worker of a Dask cluster does: run one job in a child process, which ends with the worker."""

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

from splat_cli import __version__
from splat_cli.engine.job import Job, JobResult
from splat_cli.engine.local import describe_device, device_environments
from splat_cli.engine.process import run_job
from splat_cli.errors import UsageError
from splat_cli.folder_lock import wait_until_unlocked

_LOCK_PATIENCE = 600.0  # seconds for the process of a lost worker to end and to release the run
_TERMINATED = (128 + signal.SIGTERM, -signal.SIGTERM)  # exit codes of a command that was told to end
_POLL = 0.1  # seconds

_running: Counter[str] = Counter()
_free_devices: dict[str, queue.SimpleQueue[dict[str, str]]] = {}
_lock = threading.Lock()


def dask_setup(worker: Worker) -> None:
    """Called in workers that this command starts: it stops them itself, after jobs have saved."""
    for name in ("SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)


def num_running(topic: str) -> int:
    """Jobs of a client that still run in this worker."""
    return _running[topic]


def run_on_worker(job: Job, device: str, version: str, topic: str) -> JobResult:
    """Run a job on a free device of this worker. UsageError where it cannot run here.

    It is interrupted when the client drops it. Rescheduled, to run on another worker, if this one closes. topic: of
    events for the client, (name of the job, text).
    """
    worker, started = get_worker(), f"{platform.node()} ({get_worker().address})"
    _check(job, version, started)
    key = worker.get_current_task()

    def is_dropped() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state == "cancelled"

    def must_end() -> bool:
        return is_dropped() or worker.status.name not in ("running", "paused")

    def say(text: str) -> None:
        worker.log_event(topic, (job.name, text))

    with _counted(topic), _free_device(device, must_end) as environment:
        place = ", ".join(filter(None, (started, describe_device(environment))))
        if job.run:
            wait_until_unlocked(job.folder / job.run, _LOCK_PATIENCE, must_end, say)
        say(f"{'resumed' if job.is_begun() else 'runs'} on {place}")
        result = run_job(job, {**_without_dask(), **environment}, place, must_end)
    if not is_dropped() and (must_end() or result.exit_code in _TERMINATED):
        say(f"interrupted on {place}, to be continued elsewhere")
        raise Reschedule
    return result


def _check(job: Job, version: str, place: str) -> None:
    """UsageError where the worker has another version, or does not see the files of the job."""
    if version != __version__:
        raise UsageError(
            f"versions differ: splat {version} here, {__version__} on {place}; install the same on all machines"
        )
    for path in (job.folder, *(job.folder / one for one in (job.log, *job.inputs))):
        if not path.exists():
            raise UsageError(f"{path} is not visible on {place}: use a folder that all machines of the cluster share")


@contextmanager
def _counted(topic: str) -> Iterator[None]:
    with _lock:
        _running[topic] += 1
    try:
        yield
    finally:
        with _lock:
            _running[topic] -= 1


@contextmanager
def _free_device(device: str, must_end: Callable[[], bool]) -> Iterator[dict[str, str]]:
    """Environment of a device that no other job of this worker uses; waits for one, or raises Reschedule."""
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


def _without_dask() -> Mapping[str, str | None]:
    """Removal of variables that Dask sets for its workers, such as a single thread for NumPy."""
    variables: Mapping[str, Any] = dask.config.get("distributed.nanny.pre-spawn-environ", {})
    return {name: None for name, value in variables.items() if os.environ.get(name) == str(value)}
