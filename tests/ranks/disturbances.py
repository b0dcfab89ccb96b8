"""Disturbances of runs on several ranks: once, after some steps; killed processes; what was said of it."""

import os
import signal
import threading

import pytest

from splat_cli.ranks.protocol import RankError
from tests.ranks.runs import Callback, train


def once(disturb, after=20):
    """A callback that calls `disturb` once, after that many steps."""
    waiting = [disturb]

    def work(trainer):
        if trainer.step >= after and waiting:
            waiting.pop()(trainer)

    return Callback(work)


def lost(training, path, disturb):
    """The error of a run that `disturb` disturbs once, after step 20."""
    with pytest.raises(RankError) as caught:
        train(training, path, 2, once(disturb))
    return str(caught.value)


def restarts(training):
    """The lines of restarts."""
    return [line for line in training.said if "; restarting from step" in line]


def kill(pid, delay):
    """Kills a process; with a delay it stops first, so that the run waits for it in a step and cannot end before."""
    if not delay:
        os.kill(pid, signal.SIGKILL)
        return
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(delay, os.kill, (pid, signal.SIGKILL)).start()
