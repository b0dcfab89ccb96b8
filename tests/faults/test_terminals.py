"""Training continues without a traceback if standard streams are closed, full or no longer read."""

import os
import signal
import subprocess
import sys

import pytest

from splat_cli.run.storage.run_dir import RunDir
from tests.subprocesses import HANG, SPLAT, endless_training, finished, newest_checkpoint, started, wait_for_checkpoint

STEPS = 30


def _train(scene, run, redirections=""):
    """The process of a short training, started by a shell with redirections."""
    command = f"-m splat_cli train {scene} -o {run} --device cpu --init random --steps {STEPS} --no-report"
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return started(f"exec {sys.executable} {command} {redirections}", shell=True, env=buffered, **pipes)


@pytest.mark.parametrize("redirections", ["<&- >&- 2>&-", "2>/dev/full"])
def test_training_without_a_terminal(scene, tmp_path, redirections):
    with _train(scene, tmp_path / "run", redirections) as process:
        out, err = process.communicate(timeout=HANG)
    assert (process.returncode, err) == (0, ""), out
    assert RunDir(tmp_path / "run").saved_steps() == [STEPS]


def test_training_with_closed_pipes(scene, tmp_path):
    with _train(scene, tmp_path / "run") as process:
        process.stdout.close()
        process.stderr.close()
        assert process.wait(timeout=HANG) == 0
    assert RunDir(tmp_path / "run").saved_steps() == [STEPS]


def test_a_result_that_cannot_be_printed(scene):
    ended = finished(f"{sys.executable} -m splat_cli info {scene} > /dev/full", shell=True)
    assert (ended.returncode, ended.stderr) == (1, "Error: the result cannot be printed: No space left on device\n")


def test_an_error_that_cannot_be_printed(scene):
    ended = finished(f"{sys.executable} -m splat_cli info nowhere --json > /dev/full", shell=True)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert ended.stderr.startswith("Error: nowhere ")


def test_nohup(scene, tmp_path):
    """SIGHUP stays ignored: training continues until another signal ends it."""
    run = RunDir(tmp_path / "run")
    nohup = ("sh", "-c", "trap '' HUP; exec \"$@\"", "sh")
    command = [*nohup, *SPLAT, *endless_training(scene, run.path, "--no-report")]
    with started(command, stderr=subprocess.PIPE) as process:
        wait_for_checkpoint(process, run.path)
        process.send_signal(signal.SIGHUP)
        wait_for_checkpoint(process, run.path, newest_checkpoint(run.path))
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=HANG)
    assert process.returncode == 128 + signal.SIGTERM, err
