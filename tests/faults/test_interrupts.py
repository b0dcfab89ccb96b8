"""SIGINT and SIGTERM while kernels compile, before the first step; scripts/bench/interrupt_seconds.py measures them."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from splat_cli.terminal.interrupt import kept_signal_handlers
from tests.subprocesses import HANG, environment, started, wait_until

SLOW_COMPILER = """#!/bin/sh
case "$*" in *--version*) ;; *) touch "{folder}/started"; while [ ! -e "{folder}/go_on" ]; do sleep 0.05; done;; esac
exec g++ "$@"
"""
COMPILE_IN_TRAINING = """
from splat_cli.device.compilation.host_compiler import find_compiler
from splat_cli.terminal.interrupt import deferred_interrupt
with deferred_interrupt() as check:
    print(find_compiler().library("x", "int x;", (), {}))
    try:
        check()
    except KeyboardInterrupt:
        print("saved")
"""


@pytest.fixture
def slow_compiler(tmp_path):
    """Environment with an empty cache and a compiler that waits until a file `go_on` exists."""
    if not shutil.which("g++"):
        pytest.skip("no g++")
    script = tmp_path / "slow"
    script.write_text(SLOW_COMPILER.format(folder=tmp_path))
    script.chmod(0o755)
    return environment(CXX=script, XDG_CACHE_HOME=tmp_path / "cache")


def _interrupted(arguments, environment, folder, number, *, compile):
    """(exit code, stdout, stderr) of a process group that gets a signal while the compiler waits.

    compile: whether the compiler continues after the signal.
    """
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started([sys.executable, *arguments], env=environment, start_new_session=True, **pipes) as process:
        wait_until((folder / "started").exists, process)
        os.killpg(process.pid, number)
        if compile:
            (folder / "go_on").touch()
        out, err = process.communicate(timeout=HANG)
        return process.returncode, out, err


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_before_the_first_step_acts_at_once(scene, tmp_path, slow_compiler, number, expected):
    arguments = ["-m", "splat_cli", "train", scene, "-o", tmp_path / "run", "--device", "cpu"]
    code, _, err = _interrupted(arguments, slow_compiler, tmp_path, number, compile=False)
    assert (code, err.splitlines()[-1]) == (expected, "Interrupted"), err
    assert "Traceback" not in err
    assert not list((tmp_path / "cache" / "splat").iterdir())


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no SIGTERM")
def test_a_c_library_does_not_swallow_signals():
    """As pycolmap, which prints a trace of the stack and ends the program."""
    received = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    try:
        with kept_signal_handlers():
            ctypes.CDLL(None).signal(signal.SIGTERM, ctypes.c_void_p(1))  # SIG_IGN
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert received == [signal.SIGTERM]


def test_ctrl_c_during_training_lets_the_compiler_finish(tmp_path, slow_compiler):
    arguments = ["-c", COMPILE_IN_TRAINING]
    code, out, err = _interrupted(arguments, slow_compiler, tmp_path, signal.SIGINT, compile=True)
    assert (code, err) == (0, "")
    assert out.splitlines()[1:] == ["saved"]
    assert Path(out.splitlines()[0]).is_file()


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for one process")
def test_ctrl_c_while_modules_are_imported_leaves_no_traceback(tmp_path):
    (tmp_path / "click.py").write_text(f"import time\nopen({str(tmp_path / 'started')!r}, 'w')\ntime.sleep(1e6)\n")
    command = [sys.executable, "-m", "splat_cli", "info"]
    with started(command, env=environment(tmp_path), stderr=subprocess.PIPE) as process:
        wait_until((tmp_path / "started").exists, process)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=HANG)[1] == ""
        assert process.returncode == -signal.SIGINT
