"""SIGINT and SIGTERM while kernels compile and before the first step: within 2 seconds; here twice that at most."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SLOW_COMPILER = """#!/bin/sh
case "$*" in *--version*) ;; *) touch "{started}"; sleep {seconds};; esac
exec g++ "$@"
"""
COMPILE_IN_TRAINING = """
from splat_cli.device.host_compiler import find_compiler
from splat_cli.interrupt import deferred_interrupt
with deferred_interrupt() as check:
    print(find_compiler().library("x", "int x;", (), {}))
    try:
        check()
    except KeyboardInterrupt:
        print("saved")
"""


@pytest.fixture
def slow_compiler(tmp_path):
    """`slow_compiler(seconds)`: environment with a compiler that sleeps before it works, and an empty cache."""

    def environment(seconds):
        script = tmp_path / "slow"
        script.write_text(SLOW_COMPILER.format(started=tmp_path / "started", seconds=seconds))
        script.chmod(0o755)
        return {**os.environ, "CXX": str(script), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}

    return environment


def _interrupted(arguments, environment, started, number):
    """(exit code, stdout, stderr, seconds) of a process group that gets a signal once the compiler was started.

    A job in the background ignores SIGINT, and so would this one.
    """
    with subprocess.Popen(
        [sys.executable, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:  # fmt: skip
        while not started.exists() and process.poll() is None:
            time.sleep(0.02)
        begin = time.perf_counter()
        os.killpg(process.pid, number)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err, time.perf_counter() - begin


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_before_the_first_step_acts_at_once(scene, tmp_path, slow_compiler, number, expected):
    arguments = ["-m", "splat_cli", "train", scene, "-o", tmp_path / "run", "--device", "cpu"]
    code, _, err, seconds = _interrupted(arguments, slow_compiler(60), tmp_path / "started", number)
    assert (code, err.splitlines()[-1]) == (expected, "Interrupted"), err
    assert "Traceback" not in err
    assert seconds < 4
    assert not list((tmp_path / "cache" / "splat").iterdir())


def test_ctrl_c_during_training_lets_the_compiler_finish(tmp_path, slow_compiler):
    code, out, err, _ = _interrupted(
        ["-c", COMPILE_IN_TRAINING], slow_compiler(0.5), tmp_path / "started", signal.SIGINT
    )
    assert (code, err) == (0, "")
    assert out.splitlines()[1:] == ["saved"]
    assert Path(out.splitlines()[0]).is_file()
