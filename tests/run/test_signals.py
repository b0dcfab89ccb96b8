"""Killed and interrupted runs save, say how to resume, and end with the same bits."""

import random
import signal
import subprocess
import threading
import time
from types import SimpleNamespace

import pytest

from splat_cli.run.checkpoints import checkpointer
from splat_cli.run.checkpoints.checkpointer import checkpoint_paths
from splat_cli.run.checkpoints.file import read_checkpoint
from splat_cli.run.storage.find_run import is_run
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.terminal.interrupt import Interrupted, Terminated
from splat_cli.train.density_control import DensityControl
from tests.subprocesses import (
    HANG,
    SPLAT,
    endless_training,
    newest_checkpoint,
    started,
    wait_for_checkpoint,
    wait_until,
)

OPTIONS = ["--deterministic", "--densify-start=20", "--densify-interval=20", "--no-report"]


def _training(run, scene):
    """Starts or resumes an endless training that saves splats after 200 steps; it is killed at the end."""
    arguments = endless_training(scene, run.path, "--save-at=200", *OPTIONS)
    if is_run(run.path):
        arguments = ["train", "--resume", str(run.path), "--device=cpu"]
    return started([*SPLAT, *arguments], stderr=subprocess.PIPE)


def _train_and_save(run, scene):
    with _training(run, scene) as process:
        wait_until(run.ply_path(200).is_file, process)


@pytest.mark.slow
def test_killed_at_random_moments(scene, tmp_path):
    whole, killed = RunDir(tmp_path / "whole"), RunDir(tmp_path / "killed")
    _train_and_save(whole, scene)
    dice = random.Random(1)
    for _ in range(4):
        with _training(killed, scene) as process:
            wait_for_checkpoint(process, killed.path, newest_checkpoint(killed.path))
            time.sleep(dice.uniform(0, 0.1))
    _train_and_save(killed, scene)
    assert killed.ply_path(200).read_bytes() == whole.ply_path(200).read_bytes()


def _interrupted(run, scene, number, times=1):
    """(exit code, stderr) of a long training that gets a signal after its first steps."""
    with started([*SPLAT, *endless_training(scene, run.path, *OPTIONS)], stderr=subprocess.PIPE) as process:
        wait_for_checkpoint(process, run.path)
        for _ in range(times):
            process.send_signal(number)
        _, err = process.communicate(timeout=HANG)
        return process.returncode, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_saves_and_tells_how_to_resume(scene, tmp_path, training, number):
    run = RunDir(tmp_path / "run")
    code, err = _interrupted(run, scene, number)
    assert (code, "Traceback" in err) == (128 + number, False), err
    (step,) = run.saved_steps()
    assert f"Interrupted after step {step}; " in err
    assert f"continue with: splat train --resume {run.path}" in err
    assert read_checkpoint(checkpoint_paths(run.checkpoints_path)[0]).step == step
    training.resume(run.path, steps=step + 5)
    assert run.saved_steps() == [step, step + 5]


def test_a_second_hangup_is_ignored(scene, tmp_path):
    """A shell sends one signal to its jobs, and the terminal's driver another."""
    run = RunDir(tmp_path / "run")
    code, err = _interrupted(run, scene, signal.SIGHUP, times=20)
    assert code == 129, err
    assert run.saved_steps()


def test_a_second_signal_within_a_step_saves_no_half_of_it(training, tmp_path, monkeypatch):
    """For example, while splats are densified: a checkpoint would hold new splats with the moments of others."""
    refine = DensityControl.refine

    def interrupted(self, *args):
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)
        return refine(self, *args)

    monkeypatch.setattr(DensityControl, "refine", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
    try:
        with pytest.raises(Interrupted, match="Interrupted; no checkpoint is saved yet; continue with"):
            training.new(tmp_path / "run", checkpoint_every=0)
    finally:
        signal.signal(signal.SIGINT, before)
    run = RunDir(tmp_path / "run")
    assert (checkpoint_paths(run.checkpoints_path), run.saved_steps()) == ([], [])


def test_a_signal_while_a_checkpoint_begins_is_reported_as_a_signal(training, tmp_path, monkeypatch):
    """The thread that writes the checkpoint may then not have started."""

    class Interruptible(threading.Thread):
        def start(self):
            raise Terminated(signal.SIGTERM)

    monkeypatch.setattr(checkpointer, "threading", SimpleNamespace(Thread=Interruptible))
    with pytest.raises((Terminated, Interrupted)):
        training.new(tmp_path / "run", checkpoint_every=5)


def test_second_signal_ends_at_once_without_harm(scene, tmp_path, training):
    run = RunDir(tmp_path / "run")
    code, _ = _interrupted(run, scene, signal.SIGTERM, times=2)
    assert code in (128 + signal.SIGTERM, -signal.SIGTERM)
    steps = [read_checkpoint(path).step for path in checkpoint_paths(run.checkpoints_path)]
    last = max(steps, default=0) + 5
    training.resume(run.path, steps=last)
    assert run.result()["steps"] == last
