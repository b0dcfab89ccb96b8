"""Execution of a job in a child process, on one of the devices of this machine."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from splat_cli.device.cuda import visible_gpus, why_no_cuda
from splat_cli.engine.job import Job, JobResult
from splat_cli.processes.child_process import NEW_SESSION, child_environment

SAVING = 90.0  # seconds to save after a request to end; then the process is killed
_POLL = 0.1  # seconds
_TAIL = 4096  # bytes


def run_job(
    job: Job,
    environment: Mapping[str, str | None],
    place: str,
    is_cancelled: Callable[[], bool],
    files: Sequence[int] = (),
    on_start: Callable[[], object] = lambda: None,
) -> JobResult:
    """Run a job in a child process and return its result. Once `is_cancelled` returns True, the job saves and ends.

    The child ends with this process.

    environment: additional variables; None removes one. files: descriptors that the child inherits. on_start: called
    when the child has been started.
    """
    start, log = time.monotonic(), job.folder / job.log
    with tempfile.TemporaryFile() as output:
        with log.open("ab") as errors:
            module = ("splat_cli.processes.child_process", *job.command())
            process = start_child(module, job.folder, environment, files, stdout=output, stderr=errors)
        with process:
            on_start()
            code = wait_for_end(process, is_cancelled, lambda: _interrupt(process))
        output.seek(0)
        printed = output.read().decode("utf-8", "replace")
    return JobResult(job, code, time.monotonic() - start, place, printed, _last_line(log))


def start_child(
    module: Sequence[str], folder: Path, environment: Mapping[str, str | None], files: Sequence[int], **streams: Any
) -> subprocess.Popen[bytes]:
    """A child process that runs a module with arguments. The terminal's signals do not reach it. See `run_job`."""
    options: dict[str, Any] = {"cwd": folder, "env": child_environment(environment), "pass_fds": files, **streams}
    command = [sys.executable, "-P", "-m", *module]
    return subprocess.Popen(command, stdin=subprocess.PIPE, **options, **NEW_SESSION)


def wait_for_end(process: subprocess.Popen[bytes], must_end: Callable[[], bool], tell: Callable[[], object]) -> int:
    """The exit code of a process. Once `must_end` returns True, calls `tell`; SAVING seconds later, kills it."""
    told_at = None
    while True:
        try:
            return process.wait(_POLL)
        except subprocess.TimeoutExpired:
            if told_at is None and must_end():
                told_at = time.monotonic()
                tell()
            elif told_at is not None and time.monotonic() - told_at > SAVING:
                process.kill()


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """Let the job save and end. On Windows, which has no SIGTERM, it ends with its standard input."""
    if sys.platform == "win32":
        assert process.stdin is not None
        process.stdin.close()
    else:
        process.terminate()


def _last_line(log: Path) -> str:
    """The last line of a log with text in it."""
    lines = log.read_bytes()[-_TAIL:].decode("utf-8", "replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def describe_device(environment: Mapping[str, str]) -> str:
    """Name of the device for messages; empty if there is only one."""
    return ", ".join(f"GPU {name}" for name in environment.values())


def device_environments(device: str) -> list[dict[str, str]]:
    """Environment variables for each device that make only this device visible."""
    if device == "cpu" or why_no_cuda():
        return [{}]
    import cupy

    return [{"CUDA_VISIBLE_DEVICES": name} for name in visible_gpus(cupy.cuda.runtime.getDeviceCount())]
