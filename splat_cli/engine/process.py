"""Execution of a job in a child process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from splat_cli.engine.job import Job, JobResult
from splat_cli.processes.child_process import NEW_SESSION, child_environment

_POLL = 0.1  # seconds
_TAIL = 4096  # bytes


def run_job(
    job: Job, environment: Mapping[str, str | None], place: str, is_cancelled: Callable[[], bool],
    files: Sequence[int] = (), on_start: Callable[[], object] = lambda: None,
) -> JobResult:  # fmt: skip
    """Run a job in a child process and return its result. If `is_cancelled` returns True, the job saves and ends early.

    The child ends with this process.

    environment: additional variables; None removes one. files: descriptors that it inherits. on_start: called when it
    has been started. The terminal's signals do not reach it.
    """
    start, log = time.monotonic(), job.folder / job.log
    with tempfile.TemporaryFile() as output:
        with log.open("ab") as errors:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "splat_cli.processes.child_process", *job.command()], cwd=job.folder,
                env=child_environment(environment), stdin=subprocess.PIPE, stdout=output, stderr=errors,
                pass_fds=files, **NEW_SESSION,
            )  # fmt: skip
        with process:
            on_start()
            code = _wait(process, is_cancelled)
        output.seek(0)
        printed = output.read().decode("utf-8", "replace")
    return JobResult(job, code, time.monotonic() - start, place, printed, _last_line(log))


def _wait(process: subprocess.Popen[bytes], is_cancelled: Callable[[], bool]) -> int:
    """Wait for the process, interrupted once `is_cancelled` returns True; returns its exit code."""
    is_told = False
    while True:
        try:
            return process.wait(_POLL)
        except subprocess.TimeoutExpired:
            if not is_told and is_cancelled():
                _interrupt(process)
                is_told = True


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """Let the job save and end. Windows has no SIGTERM: there it ends with its standard input."""
    if sys.platform == "win32":
        assert process.stdin is not None
        process.stdin.close()
    else:
        process.terminate()


def _last_line(log: Path) -> str:
    """The last line of a log with text in it."""
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
