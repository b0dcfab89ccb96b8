"""Tasks of the workers of a Dask cluster for a run on several ranks: each runs one rank in a child process."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from distributed import Reschedule

from splat_cli.engine.dask_worker import (
    LOCK_PATIENCE,
    WorkerTask,
    check_visible,
    counted,
    free_device,
    without_dask,
)  # fmt: skip
from splat_cli.engine.job import Job, JobResult
from splat_cli.engine.local import describe_device
from splat_cli.engine.process import run_job
from splat_cli.errors import SplatError, reason_of
from splat_cli.io.folder_lock import wait_until_unlocked
from splat_cli.processes.child_process import NEW_SESSION, child_environment
from splat_cli.ranks.links import accepted, joined, listening
from splat_cli.ranks.shared import make_shared_memory

_SAVING = 90.0  # seconds until a rank that must end is killed; rank 0 may need it to save what it has trained
_POLL = 0.1  # seconds


@dataclass(frozen=True)
class RankTask:
    """Arguments of the tasks of all ranks of a job. key: authenticates their connections. device: "cuda" or "cpu"."""

    job: Job
    size: int
    device: str
    version: str
    topic: str
    key: bytes


def lead(work: RankTask) -> JobResult:
    """Run the job as rank 0, once all others are connected.

    Events: ("waits", 0, text), ("listens", 0, address, paths of shared memory), ("runs", 0, place).
    """
    task, job = WorkerTask(work.topic), work.job
    check_visible(job, work.version, task.place)

    def say(text: str) -> None:
        task.send_event("waits", 0, text)

    def check() -> None:
        if task.must_end():
            raise Reschedule

    with counted(work.topic), free_device(work.device, task.must_end) as environment, ExitStack() as connections:
        place = ", ".join(filter(None, (task.place, describe_device(environment))))
        if job.run:
            wait_until_unlocked(job.folder / job.run, LOCK_PATIENCE, task.must_end, say)
        files = make_shared_memory(work.size) if work.device == "cpu" and work.size > 1 else []
        for file in files:
            connections.callback(os.close, file)
        server = connections.enter_context(listening(task.host))
        paths = [f"/proc/{os.getpid()}/fd/{file}" for file in files]
        task.send_event("listens", 0, server.getsockname()[:2], paths)
        links = connections.enter_context(accepted(server, work.size, work.key, check))
        links = dataclasses.replace(links, files=tuple(files))
        task.send_event("runs", 0, place)
        variables = {**without_dask(), **environment, **(links.environment() if work.size > 1 else {})}
        return run_job(job, variables, place, task.must_end, links.descriptors(), connections.close)


def follow(work: RankTask, rank: int, address: tuple[str, int], paths: Sequence[str]) -> None:
    """Run another rank, to the end of its process. address: of rank 0; paths: of memory to share.

    Events: ("runs", rank, place), ("closes", rank, place) if the worker closes meanwhile. SplatError if rank 0 cannot
    be reached.
    """
    task = WorkerTask(work.topic)
    check_visible(work.job, work.version, task.place)
    with counted(work.topic), free_device(work.device, task.must_end) as environment:
        with ExitStack() as connections:
            try:
                files = []
                for path in paths:
                    files.append(os.open(path, os.O_RDWR))
                    connections.callback(os.close, files[-1])
                links = connections.enter_context(joined(address, work.key, rank))
            except OSError as error:
                raise SplatError(
                    f"{task.place} cannot reach rank 0 at {address[0]}, port {address[1]} ({reason_of(error)}): workers"
                    " must be able to connect to each other"
                ) from None
            (messages,), (heartbeat,) = links.messages, links.heartbeats
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "splat_cli.run.follower", *map(str, (messages, rank, work.size, *files))],
                cwd=work.job.folder, env=child_environment({**without_dask(), **environment}), stdin=subprocess.PIPE,
                stdout=heartbeat, pass_fds=(messages, *files), **NEW_SESSION,
            )  # fmt: skip
        place = ", ".join(filter(None, (task.place, describe_device(environment))))
        with process:
            task.send_event("runs", rank, place)
            _wait(process, task, rank)


def _wait(process: subprocess.Popen[bytes], task: WorkerTask, rank: int) -> None:
    """Wait for the end of a rank's process, which follows that of rank 0; killed if it does not."""
    end = None
    while True:
        try:
            process.wait(_POLL)
            return
        except subprocess.TimeoutExpired:
            if end is None and task.must_end():
                end = time.monotonic() + _SAVING
                if not task.is_dropped():
                    task.send_event("closes", rank, task.place)
            elif end is not None and time.monotonic() > end:
                process.kill()
