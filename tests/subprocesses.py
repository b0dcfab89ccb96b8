"""Processes started by tests. They end with the test, and waiting for them or for events has a limit."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from splat_cli.run.checkpoints.checkpointer import checkpoint_paths
from splat_cli.run.storage.run_dir import RunDir

ROOT = Path(__file__).parents[1]
SPLAT = (sys.executable, "-m", "splat_cli")
HANG = 300.0
"""Seconds until a test gives up waiting. Only meant for hangs: machines may be slow or busy."""
ENDLESS = 1_000_000
"""Number of steps of a training that must not end before its test ends it."""

T = TypeVar("T")


def environment(*folders: Path, **variables: object) -> dict[str, str]:
    """The environment with `variables`, in which Python finds modules of `folders` and this checkout first."""
    paths = [*map(str, (*folders, ROOT)), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **{k: str(v) for k, v in variables.items()}}


@contextmanager
def started(command: Sequence[Any] | str, **options: Any) -> Iterator["subprocess.Popen[str]"]:
    """A process with text output; at the end it and its children are killed."""
    with subprocess.Popen(command, text=True, **{"cwd": ROOT, **options}) as process:
        try:
            yield process
        finally:
            with suppress(psutil.NoSuchProcess):
                for child in descendants(process.pid):
                    with suppress(psutil.NoSuchProcess):
                        child.kill()
            process.kill()


def finished(command: Sequence[Any] | str, **options: Any) -> "subprocess.CompletedProcess[str]":
    """See subprocess.run; keeps the output as text."""
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
        out, err = process.communicate(timeout=HANG)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def endless_training(scene: Path, run: Path, *options: object) -> list[str]:
    """Arguments of a training that writes checkpoints, and splats when it is interrupted."""
    arguments = ("train", scene, "-o", run, "--device=cpu", f"--steps={ENDLESS}", "--save-at=", "--checkpoint-every=10")
    return [str(argument) for argument in (*arguments, *options)]


def wait_until(condition: Callable[[], T], process: "subprocess.Popen[str] | None" = None) -> T:
    """The first result of `condition` that counts as true; the test fails if the process ends earlier."""
    end = time.monotonic() + HANG
    while not (found := condition()):
        if process is not None and process.poll() is not None and not condition():
            pytest.fail(f"ended with exit code {process.returncode}: {process.stderr and process.stderr.read()}")
        if time.monotonic() > end:
            pytest.fail(f"not within {HANG:.0f} s")
        time.sleep(0.02)
    return found


def wait_for_checkpoint(process: "subprocess.Popen[str]", run: Path, newest: Sequence[Path] = ()) -> None:
    """Wait until a training has written a checkpoint after `newest`. From then on, signals save the training."""
    wait_until(lambda: newest_checkpoint(run) != [*newest], process)


def assert_gone(processes: Sequence[psutil.Process]) -> None:
    """Wait until all these processes have ended."""
    assert psutil.wait_procs(processes, timeout=HANG)[1] == []


def stopped_at_checkpoint(pid: int, argument: str, run: Path) -> psutil.Process:
    """The process with a certain argument below another one, stopped after the first checkpoint, before the last step.

    It runs in slices: on a busy machine, the run could finish between two looks of the test.
    """
    (process,) = wait_until(lambda: descendants(pid, argument))
    while not newest_checkpoint(run):
        process.resume()
        time.sleep(0.03)
        process.suspend()
    return process


def newest_checkpoint(run: Path) -> list[Path]:
    """A list of the path of a run's newest checkpoint, empty without checkpoints."""
    return checkpoint_paths(RunDir(run).checkpoints_path)[:1]


def descendants(pid: int, argument: str = "") -> list[psutil.Process]:
    """Processes below another one; only those with a certain argument, if it is given.

    A process that ends meanwhile is left out: its arguments cannot be read any more.
    """
    found = []
    for process in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if not argument or argument in process.cmdline():
                found.append(process)
    return found


def is_running(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
