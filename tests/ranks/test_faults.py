"""Ranks that are killed, stopped or fail: noticed at once, told in a line; no process is left, and the run goes on."""

import os
import signal
import subprocess
import threading

import pytest

from splat_cli.ranks import followers
from splat_cli.ranks.protocol import RankError
from tests.processes import HANG, SPLAT, endless_training, is_running, started, wait_for_checkpoint, wait_until
from tests.ranks.runs import SETTINGS, Callback, bits, children, train


@pytest.fixture(autouse=True)
def grace(monkeypatch):
    """Rank 0, which is this process, is never ended for being slow."""
    monkeypatch.setattr(followers, "_GRACE", 2 * HANG)


def _lost(training, path, disturb, **changes):
    """The error of a run that `disturb` disturbs once, after step 20."""
    waiting = [disturb]

    def work(trainer):
        if trainer.step >= 20 and waiting:
            waiting.pop()(trainer)

    with pytest.raises(RankError) as caught:
        train(training, path, 2, Callback(work), **changes)
    return str(caught.value)


def _kill(pid, delay):
    """Kills a process; with a delay it stops first, so that the run waits for it in a step and cannot end before."""
    if not delay:
        os.kill(pid, signal.SIGKILL)
        return
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(delay, os.kill, (pid, signal.SIGKILL)).start()


@pytest.mark.parametrize("delay", [0.0, 0.3])
def test_killed_rank_ends_the_run_which_resumes_to_the_same_bits(alone, training, tmp_path, monkeypatch, delay):
    monkeypatch.setattr(followers, "STOPPED", 2 * HANG)  # what tells of the end is the end itself
    message = _lost(training, tmp_path / "run", lambda _: _kill(children()[-1], delay))
    assert message.startswith("rank 1 of 2 was ended by SIGKILL; go on with: splat train --resume")
    assert not children()
    assert bits(training.resume(tmp_path / "run")) == bits(alone)


def test_stopped_rank_is_noticed(training, tmp_path, monkeypatch):
    stopped = []

    def stop(trainer):
        stopped.append(children()[0])
        os.kill(stopped[0], signal.SIGSTOP)
        monkeypatch.setattr(followers, "STOPPED", 3.0)

    message = _lost(training, tmp_path / "run", stop)
    assert message.startswith("rank 1 of 2 has stopped: no sign of life")
    assert not any(is_running(pid) for pid in stopped)


def test_failed_rank_tells_why(training, tmp_path):
    message = _lost(training, tmp_path / "run", lambda trainer: trainer.ranks.tell("run", "nowhere"))
    assert "rank 1 of 2 failed: TypeError" in message
    assert "\n" not in message


def test_rank_without_memory_tells_what_helps(training, tmp_path):
    huge = 2**50
    message = _lost(training, tmp_path / "run", lambda trainer: trainer.ranks.tell("scatter", 20, 9, huge, 1.0))
    assert "rank 1 of 2 failed: out of device memory: use --max-splats" in message


def _training(scene, path):
    """The process of an endless training on two ranks."""
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SETTINGS.items()
               if name not in ("save_at", "deterministic", "steps", "checkpoint_every")]  # fmt: skip
    arguments = endless_training(scene, path, "--deterministic", "--no-report", "--gpus=2", *options)
    return started([*SPLAT, *arguments], stderr=subprocess.PIPE)


def _ranks_in_training(process, path):
    """Waits for the first checkpoint; returns the processes of the other ranks."""
    wait_for_checkpoint(process, path)
    others = children(process.pid)
    assert others
    return others


def test_ranks_end_with_a_killed_parent(scene, tmp_path):
    with _training(scene, tmp_path / "run") as process:
        others = _ranks_in_training(process, tmp_path / "run")
        process.kill()
        wait_until(lambda: not any(map(is_running, others)))


def test_interrupt_saves_and_tells_how_to_resume(scene, tmp_path):
    with _training(scene, tmp_path / "run") as process:
        others = _ranks_in_training(process, tmp_path / "run")
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=HANG)[1]
    assert process.returncode == 143
    assert "Interrupted after step" in said.splitlines()[-1]
    wait_until(lambda: not any(map(is_running, others)))
