"""Ranks that are killed, stopped or fail: noticed at once, told in a line; no process is left, and the run goes on."""

import os
import re
import signal
import subprocess
import threading

import pytest

from splat_cli.interrupt import Interrupted
from splat_cli.ranks import followers
from splat_cli.ranks.protocol import RankError
from splat_cli.run import restart, train_scene
from tests.processes import HANG, SPLAT, endless_training, is_running, started, wait_for_checkpoint, wait_until
from tests.ranks.runs import SETTINGS, Callback, bits, children, train


@pytest.fixture(autouse=True)
def grace(monkeypatch):
    """Rank 0, which is this process, is never ended for being slow."""
    monkeypatch.setattr(followers, "_GRACE", 2 * HANG)


def _once(disturb, after=20):
    """A callback that calls `disturb` once, after that many steps."""
    waiting = [disturb]

    def work(trainer):
        if trainer.step >= after and waiting:
            waiting.pop()(trainer)

    return Callback(work)


def _lost(training, path, disturb):
    """The error of a run that `disturb` disturbs once, after step 20."""
    with pytest.raises(RankError) as caught:
        train(training, path, 2, _once(disturb))
    return str(caught.value)


def _restarts(training):
    """The lines of restarts."""
    return [line for line in training.said if "; restarting from step" in line]


def _kill(pid, delay):
    """Kills a process; with a delay it stops first, so that the run waits for it in a step and cannot end before."""
    if not delay:
        os.kill(pid, signal.SIGKILL)
        return
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(delay, os.kill, (pid, signal.SIGKILL)).start()


@pytest.mark.parametrize("delay", [0.0, 0.3])
def test_run_restarts_after_a_killed_rank_and_ends_with_the_same_bits(alone, training, tmp_path, monkeypatch, delay):
    monkeypatch.setattr(followers, "STOPPED", 2 * HANG)  # what tells of the end is the end itself
    run = train(training, tmp_path / "run", 2, _once(lambda _: _kill(children()[-1], delay)))
    assert _restarts(training) == [
        "Warning: rank 1 of 2 was ended by SIGKILL; restarting from step 16 (restart 1 of 3)"
    ]
    assert bits(run) == bits(alone)
    assert not children()


def test_run_without_checkpoints_restarts_from_its_beginning(training, tmp_path):
    run = train(training, tmp_path / "run", 2, _once(lambda _: _kill(children()[-1], 0), after=8), keep=0, steps=24)
    assert "restarting from step 0" in _restarts(training)[0]
    steps = [line["step"] for line in run.log_lines()]
    assert steps == sorted(steps)
    warnings = [line["warning"] for line in run.log_lines() if "warning" in line]
    assert len(warnings) == len(set(warnings)) == 2  # of few updates, and of the restart


def test_loss_while_rank_0_works_alone_does_not_end_it(training, tmp_path, monkeypatch):
    def lose(trainer):
        watcher = next(thread for thread in threading.enumerate() if thread.name == "rank 1")
        _kill(children()[-1], 0)
        wait_until(lambda: not watcher.is_alive())

    codes = []
    monkeypatch.setattr(followers, "_GRACE", 0.0)
    monkeypatch.setattr(os, "_exit", codes.append)
    train(training, tmp_path / "run", 2, _once(lose, after=8), keep=0, steps=12)
    assert len(_restarts(training)) == 1
    assert not codes


def test_rank_0_that_waits_for_a_lost_rank_ends(monkeypatch, capfd):
    codes = []
    monkeypatch.setattr(followers, "_GRACE", 0.0)
    monkeypatch.setattr(os, "_exit", codes.append)
    others = followers.Followers("splat_cli.run.follower", 2)
    others.is_waiting = lambda: not codes
    _kill(children()[-1], 0)
    wait_until(lambda: codes)
    others.close()
    assert codes == [1]
    assert "Error: rank 1 of 2 was ended by SIGKILL" in capfd.readouterr().err


class KilledInTheFirstStep(Callback):
    """Kills a rank before each first step."""

    def begin(self, trainer, run):
        super().begin(trainer, run)
        _kill(children()[-1], 0)


def test_ranks_that_are_lost_again_and_again_end_the_run(training, tmp_path, monkeypatch):
    monkeypatch.setattr(restart, "MAX_RESTARTS", 2)
    with pytest.raises(RankError, match=r"was ended by SIGKILL; go on with: splat train --resume"):
        train(training, tmp_path / "run", 2, KilledInTheFirstStep(), tensorboard=True)
    assert len(_restarts(training)) == 2
    assert not children()
    assert not any("EventFileWriter" in type(thread).__name__ or "AsyncWriter" in type(thread).__name__
                   for thread in threading.enumerate())  # fmt: skip


def test_restarts_are_counted_from_checkpoint_to_checkpoint(alone, training, tmp_path, monkeypatch):
    def work(trainer):
        if (trainer.step - 1) // 16 == len(killed) < 2:  # once before each of the first two checkpoints
            killed.append(children()[-1])
            _kill(killed[-1], 0)

    killed = []
    monkeypatch.setattr(restart, "MAX_RESTARTS", 1)
    run = train(training, tmp_path / "run", 2, Callback(work))
    assert len(killed) == len(_restarts(training)) == 2
    assert bits(run) == bits(alone)


def test_interrupt_ends_a_run_that_has_lost_a_rank(training, tmp_path):
    def interrupt(trainer):
        _kill(children()[-1], 0)
        os.kill(os.getpid(), signal.SIGINT)  # noticed after the next round of steps, which has no end

    with pytest.raises(Interrupted, match="Interrupted after step .* was ended by SIGKILL; go on with: splat train"):
        train(training, tmp_path / "run", 2, _once(interrupt, after=8))
    assert not _restarts(training)
    assert not children()


def test_interrupt_while_a_run_reads_its_scene_again_says_what_is_saved(training, tmp_path, monkeypatch):
    read, calls = train_scene.read_data, []

    def read_or_interrupt(*arguments):
        calls.append(arguments)
        if len(calls) > 1:
            os.kill(os.getpid(), signal.SIGINT)
        return read(*arguments)

    monkeypatch.setattr(train_scene, "read_data", read_or_interrupt)
    run = tmp_path / "run"
    saved = (
        f"Interrupted; the newest checkpoint is {run}/checkpoints/step_16.npz; go on with: splat train --resume {run}"
    )
    with pytest.raises(Interrupted, match=f"^{re.escape(saved)}$"):
        train(training, run, 2, _once(lambda _: _kill(children()[-1], 0)))
    assert not children()


def test_stopped_rank_is_noticed(training, tmp_path, monkeypatch):
    monkeypatch.setattr(restart, "MAX_RESTARTS", 0)
    stopped = []

    def stop(trainer):
        stopped.append(children()[0])
        os.kill(stopped[0], signal.SIGSTOP)
        monkeypatch.setattr(followers, "STOPPED", 0.0)

    message = _lost(training, tmp_path / "run", stop)
    assert message.startswith("rank 1 of 2 has stopped: no sign of life")
    assert not any(is_running(pid) for pid in stopped)


def test_failed_rank_tells_why(training, tmp_path):
    message = _lost(training, tmp_path / "run", lambda trainer: trainer.ranks.tell("run", "nowhere"))
    assert "rank 1 of 2 failed: TypeError" in message
    assert not _restarts(training)
    assert "\n" not in message


class Huge:
    """A message that takes more memory than there is."""

    def __reduce__(self):
        return bytearray, (2**60,)


def test_rank_without_memory_tells_what_helps(training, tmp_path):
    message = _lost(training, tmp_path / "run", lambda trainer: trainer.ranks.tell(Huge()))
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
        for pid in (*others, process.pid):  # as a cluster ends a job
            os.kill(pid, signal.SIGTERM)
        said = process.communicate(timeout=HANG)[1]
    assert process.returncode == 143
    assert "Interrupted after step" in said.splitlines()[-1]
    assert "; the splats so far are in " in said.splitlines()[-1]
    wait_until(lambda: not any(map(is_running, others)))
