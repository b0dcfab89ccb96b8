"""Ranks that are killed, stopped or fail: noticed at once, told in a line; no process is left, and the run goes on."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from splat_cli.ranks import followers
from splat_cli.ranks.protocol import RankError
from tests.ranks.runs import SETTINGS, Callback, bits, children, is_running, resume, train
from tests.training import Trained

ROOT = Path(__file__).parents[2]


def _lost(training, path, disturb, **changes):
    """The error of a run that `disturb` disturbs after step 20, and seconds from there to the error."""
    times = []

    def work(trainer):
        if trainer.step >= 20 and not times:
            times.append(time.monotonic())
            disturb(trainer)

    with pytest.raises(RankError) as caught:
        train(training, path, 2, Callback(work), **changes)
    return str(caught.value), time.monotonic() - times[0]


def _kill(pid, delay):
    """Kills a process; with a delay it stops first, so that the run waits for it in a step and cannot end before."""
    if not delay:
        os.kill(pid, signal.SIGKILL)
        return
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(delay, os.kill, (pid, signal.SIGKILL)).start()


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.3])
def test_killed_rank_ends_the_run_which_resumes_to_the_same_bits(scene, training, tmp_path, delay):
    message, seconds = _lost(training, tmp_path / "run", lambda _: _kill(children()[-1], delay))
    assert message.startswith("rank 1 of 2 was ended by SIGKILL; go on with: splat train --resume")
    assert seconds < 5 + delay
    assert not children()
    expected = train(Trained(scene), tmp_path / "alone", 1, keep=0)
    assert bits(resume(training, tmp_path / "run")) == bits(expected)


def test_stopped_rank_is_noticed(training, tmp_path, monkeypatch):
    monkeypatch.setattr(followers, "STOPPED", 3.0)
    stopped = []

    def stop(trainer):
        stopped.append(children()[0])
        os.kill(stopped[0], signal.SIGSTOP)

    message, seconds = _lost(training, tmp_path / "run", stop)
    assert message.startswith("rank 1 of 2 has stopped: no sign of life")
    assert seconds < 8
    assert not any(is_running(pid) for pid in stopped)


def test_failed_rank_tells_why(training, tmp_path):
    message, _ = _lost(training, tmp_path / "run", lambda trainer: trainer.ranks.tell("run", "nowhere"))
    assert "rank 1 of 2 failed: TypeError" in message
    assert "\n" not in message


def test_rank_without_memory_tells_what_helps(training, tmp_path):
    huge = 2**50
    message, _ = _lost(training, tmp_path / "run", lambda trainer: trainer.ranks.tell("scatter", 20, 9, huge, 1.0))
    assert "rank 1 of 2 failed: out of device memory: use --max-splats" in message


def _command(scene, path, **changes):
    options = [f"--{name.replace('_', '-')}={value}" for name, value in {**SETTINGS, **changes}.items()
               if name not in ("save_at", "deterministic")]  # fmt: skip
    command = [sys.executable, "-m", "splat_cli", "train", str(scene), "-o", str(path), "--device=cpu", "--save-at="]
    return subprocess.Popen(
        [*command, "--deterministic", "--no-report", "--gpus=2", *options], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )


def _started(process, path):
    """Waits for the first checkpoint; returns the processes of the other ranks."""
    end = time.monotonic() + 120
    while not list(path.glob("checkpoints/*.npz")) and time.monotonic() < end and process.poll() is None:
        time.sleep(0.05)
    return children(process.pid)


def _gone(pids):
    end = time.monotonic() + 5
    while any(map(is_running, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(map(is_running, pids))


def test_ranks_end_with_a_killed_parent(scene, tmp_path):
    process = _command(scene, tmp_path / "run", steps=4000)
    others = _started(process, tmp_path / "run")
    process.kill()
    process.communicate()
    assert others
    assert _gone(others)


def test_interrupt_saves_and_tells_how_to_resume(scene, tmp_path):
    process = _command(scene, tmp_path / "run", steps=4000)
    others = _started(process, tmp_path / "run")
    process.send_signal(signal.SIGTERM)  # a background shell may ignore SIGINT
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 143
    assert "Interrupted after step" in said.splitlines()[-1]
    assert _gone(others)
