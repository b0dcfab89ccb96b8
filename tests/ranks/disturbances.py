"""Disturbances of runs on several ranks: callbacks that run once, killed processes, output lines about restarts."""

import os
import signal
import threading

import pytest

from splat_cli.ranks.protocol import RankError
from tests.ranks.runs import Callback, train


def once(disturb, after=20):
    """A callback that calls `disturb` once, after a number of steps."""
    waiting = [disturb]

    def work(trainer):
        if trainer.step >= after and waiting:
            waiting.pop()(trainer)

    return Callback(work)


def lost(training, path, disturb):
    """The error of a run in which `disturb` is called once, after step 20."""
    with pytest.raises(RankError) as caught:
        train(training, path, 2, once(disturb))
    return str(caught.value)


def restarts(training):
    """Output lines about restarts."""
    return [line for line in training.said if "; restarting from step" in line]


def kill(pid, delay):
    """Kills a process. With a delay, stops it first, so that the run waits for it in a step and cannot end earlier."""
    if not delay:
        os.kill(pid, signal.SIGKILL)
        return
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(delay, os.kill, (pid, signal.SIGKILL)).start()
