"""Standard streams that are closed, full or no longer read do not end a training, and lead to no traceback."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from splat_cli.run.storage.run_dir import RunDir

ROOT = Path(__file__).parents[2]
STEPS = 30


def _train(scene, run, redirections="", prefix=""):
    """The process of a short training, started by a shell with redirections."""
    command = f"-m splat_cli train {scene} -o {run} --device cpu --init random --steps {STEPS} --no-report"
    return subprocess.Popen(
        f"{prefix} {sys.executable} {command} {redirections}", shell=True, cwd=ROOT, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.parametrize("redirections", ["<&- >&- 2>&-", "2>/dev/full"])
def test_training_without_a_terminal(scene, tmp_path, redirections):
    with _train(scene, tmp_path / "run", redirections) as process:
        out, err = process.communicate(timeout=400)
    assert (process.returncode, err) == (0, ""), out
    assert RunDir(tmp_path / "run").saved_steps() == [STEPS]


def test_training_whose_output_nobody_reads(scene, tmp_path):
    with _train(scene, tmp_path / "run") as process:
        process.stdout.close()
        process.stderr.close()
        assert process.wait(timeout=400) == 0
    assert RunDir(tmp_path / "run").saved_steps() == [STEPS]


def test_a_result_that_cannot_be_printed(scene):
    command = f"{sys.executable} -m splat_cli info {scene} > /dev/full"
    ended = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (1, "Error: the result cannot be printed: No space left on device\n")


def test_nohup(scene, tmp_path):
    with _train(scene, tmp_path / "run", prefix="trap '' HUP; exec") as process:
        process.stderr.readline()
        os.kill(process.pid, signal.SIGHUP)
        _, err = process.communicate(timeout=400)
    assert process.returncode == 0, err
