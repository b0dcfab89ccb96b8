"""If ranks stop, fail or lose rank 0, it is noticed at once, reported in one line, and no process is left."""

import os
import signal
import subprocess

from splat_cli.ranks import watch
from splat_cli.run import resume
from tests.ranks.disturbances import kill, lost, restarts
from tests.ranks.runs import SETTINGS, children
from tests.subprocesses import HANG, SPLAT, endless_training, is_running, started, wait_for_checkpoint, wait_until


def test_rank_0_that_waits_for_a_lost_rank_ends(monkeypatch, capfd):
    codes = []
    monkeypatch.setattr(watch, "_GRACE", 0.0)
    monkeypatch.setattr(os, "_exit", codes.append)
    others = watch.Followers("splat_cli.run.follower", 2)
    others.is_waiting = lambda: not codes
    wait_until(children)  # just after its start, a process has no command line
    kill(children()[-1], 0)
    wait_until(lambda: codes)
    others.close()
    assert codes == [75]
    assert "Error: rank 1 of 2 was ended by SIGKILL" in capfd.readouterr().err


def test_stopped_rank_is_noticed(training, tmp_path, monkeypatch):
    monkeypatch.setattr(resume, "MAX_RESTARTS", 0)
    stopped = []

    def stop(trainer):
        stopped.append(children()[0])
        os.kill(stopped[0], signal.SIGSTOP)
        monkeypatch.setattr(watch, "HEARTBEAT_TIMEOUT", 0.0)

    message = lost(training, tmp_path / "run", stop)
    assert message.startswith("rank 1 of 2 does not respond: no heartbeat")
    assert not any(is_running(pid) for pid in stopped)


def test_failed_rank_reports_the_reason(training, tmp_path):
    message = lost(training, tmp_path / "run", lambda trainer: trainer.sharding.ranks.broadcast("nowhere"))
    assert "rank 1 of 2 failed: AttributeError" in message
    assert not restarts(training)
    assert "\n" not in message


class Huge:
    """A message larger than the available memory."""

    def __reduce__(self):
        return bytearray, (2**60,)


def test_rank_without_memory_gives_advice(training, tmp_path):
    message = lost(training, tmp_path / "run", lambda trainer: trainer.sharding.ranks.broadcast(Huge()))
    assert "rank 1 of 2 failed: out of device memory: use --max-splats" in message


def _training(scene, path):
    """The process of an endless training on two ranks."""
    options = [
        f"--{name.replace('_', '-')}={value}"
        for name, value in SETTINGS.items()
        if name not in ("save_at", "deterministic", "steps", "checkpoint_every")
    ]
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
        for pid in (*others, process.pid):  # clusters end jobs like this
            os.kill(pid, signal.SIGTERM)
        said = process.communicate(timeout=HANG)[1]
    assert process.returncode == 143
    assert "Interrupted after step" in said.splitlines()[-1]
    assert "; the splats so far are in " in said.splitlines()[-1]
    wait_until(lambda: not any(map(is_running, others)))
