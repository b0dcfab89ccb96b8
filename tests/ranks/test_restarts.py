"""Runs that lose a rank: they restart from the newest checkpoint up to three times, and end with the same bits."""

import os
import re
import signal
import sys
import threading
from types import SimpleNamespace

import pytest

from splat_cli.config import TrainConfig
from splat_cli.device import open_backend
from splat_cli.errors import UsageError
from splat_cli.ranks import watch
from splat_cli.ranks.protocol import RankError
from splat_cli.run import resume, train_scene
from splat_cli.run.ranks import followers_ahead, started_ranks
from splat_cli.terminal.interrupt import Interrupted
from splat_cli.terminal.phase_timer import PhaseTimer
from tests.ranks.disturbances import kill, once, restarts
from tests.ranks.runs import Callback, bits, children, train
from tests.subprocesses import HANG, wait_until


@pytest.mark.parametrize("delay", [0.0, 0.3])
def test_run_restarts_after_a_killed_rank_and_ends_with_the_same_bits(alone, training, tmp_path, monkeypatch, delay):
    monkeypatch.setattr(watch, "HEARTBEAT_TIMEOUT", 2 * HANG)  # only the exit of the process reveals it
    run = train(training, tmp_path / "run", 2, once(lambda _: kill(children()[-1], delay)))
    assert restarts(training) == ["Warning: rank 1 of 2 was ended by SIGKILL; restarting from step 16 (restart 1 of 3)"]
    assert bits(run) == bits(alone)
    assert not children()


def test_run_without_checkpoints_restarts_from_its_beginning(training, tmp_path):
    timer = PhaseTimer("starting")
    with timer("phase before the loss"):
        pass
    lose = once(lambda _: kill(children()[-1], 0), after=8)
    run = train(training, tmp_path / "run", 2, lose, keep=0, steps=24, timer=timer)
    assert "restarting from step 0" in restarts(training)[0]
    steps = [line["step"] for line in run.log.entries()]
    assert steps == sorted(steps)
    warnings = [line["warning"] for line in run.log.entries() if "warning" in line]
    assert len(warnings) == len(set(warnings)) == 2  # warnings about few updates and about the restart
    phases = run.log.entries()[-1]["phases"]
    assert "training steps" in phases
    assert "phase before the loss" not in phases


def test_loss_while_rank_0_works_alone_does_not_end_it(training, tmp_path, monkeypatch):
    def lose(trainer):
        watcher = next(thread for thread in threading.enumerate() if thread.name == "rank 1")
        kill(children()[-1], 0)
        wait_until(lambda: not watcher.is_alive())

    codes = []
    monkeypatch.setattr(watch, "_GRACE", 0.0)
    monkeypatch.setattr(os, "_exit", codes.append)
    train(training, tmp_path / "run", 2, once(lose, after=8), keep=0, steps=12)
    assert len(restarts(training)) == 1
    assert not codes


class KilledInTheFirstStep(Callback):
    """Kills a rank before each first step."""

    def begin(self, trainer, run):
        super().begin(trainer, run)
        kill(children()[-1], 0)


def test_repeated_losses_end_the_run(training, tmp_path, monkeypatch):
    pytest.importorskip("tensorboard")  # its threads must end, too
    monkeypatch.setattr(resume, "MAX_RESTARTS", 2)
    with pytest.raises(RankError, match=r"was ended by SIGKILL; continue with: splat train --resume"):
        train(training, tmp_path / "run", 2, KilledInTheFirstStep(), tensorboard=True)
    assert len(restarts(training)) == 2
    assert not children()
    assert not any(
        "EventFileWriter" in type(thread).__name__ or "AsyncWriter" in type(thread).__name__
        for thread in threading.enumerate()
    )


def test_restarts_are_counted_from_checkpoint_to_checkpoint(alone, training, tmp_path, monkeypatch):
    def work(trainer):
        if (trainer.step - 1) // 16 == len(killed) < 2:  # once before each of the first two checkpoints
            killed.append(children()[-1])
            kill(killed[-1], 0)

    killed = []
    monkeypatch.setattr(resume, "MAX_RESTARTS", 1)
    run = train(training, tmp_path / "run", 2, Callback(work))
    assert len(killed) == len(restarts(training)) == 2
    assert bits(run) == bits(alone)


def test_interrupt_ends_a_run_that_has_lost_a_rank(training, tmp_path):
    def interrupt(trainer):
        kill(children()[-1], 0)
        os.kill(os.getpid(), signal.SIGINT)  # noticed after the next round of steps, which never ends

    with pytest.raises(Interrupted, match="Interrupted after step .* was ended by SIGKILL; continue with: splat train"):
        train(training, tmp_path / "run", 2, once(interrupt, after=8))
    assert not restarts(training)
    assert not children()


def test_interrupt_during_a_restart_names_the_checkpoint(training, tmp_path, monkeypatch):
    read, calls = train_scene.read_data, []

    def read_or_interrupt(*arguments, **options):
        calls.append(arguments)
        if len(calls) > 1:
            os.kill(os.getpid(), signal.SIGINT)
        return read(*arguments, **options)

    monkeypatch.setattr(train_scene, "read_data", read_or_interrupt)
    run = tmp_path / "run"
    saved = (
        f"Interrupted; the newest checkpoint is {run}/checkpoints/step_16.npz; "
        f"continue with: splat train --resume {run}"
    )
    with pytest.raises(Interrupted, match=f"^{re.escape(saved)}$"):
        train(training, run, 2, once(lambda _: kill(children()[-1], 0)))
    assert not children()


def test_processes_started_ahead_serve_one_run(monkeypatch):
    """A run of another size starts its own; what no run has used ends with the context."""
    backend, config = open_backend("cpu"), TrainConfig(gpus=2, batch=2)
    with followers_ahead(2, backend):
        ahead = wait_until(children)
        with started_ranks(config, backend):
            assert children() == ahead
        assert not children()
        with started_ranks(config, backend):
            assert len(set(wait_until(children)) - {*ahead}) == 1
    with followers_ahead(3, backend):
        ahead = wait_until(lambda: len(found := children()) == 2 and found)
        with started_ranks(config, backend):
            assert wait_until(lambda: set(children()) > {*ahead})
        assert children() == ahead
    assert not children()
    monkeypatch.setattr(sys, "platform", "win32")
    with followers_ahead(2, backend):
        assert not children()


def test_no_process_starts_ahead_on_too_few_gpus(monkeypatch):
    """`started_ranks` tells that they are too few."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    runtime = SimpleNamespace(getDeviceCount=lambda: 2)
    backend = SimpleNamespace(name="cuda", xp=SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))
    with (
        pytest.raises(UsageError, match="--gpus 4: this process sees 2"),
        followers_ahead(4, backend),
        started_ranks(TrainConfig(gpus=4, batch=4), backend),
    ):
        pass
    assert not children()
