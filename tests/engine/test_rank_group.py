"""`splat train --gpus 2 --cluster`: the same bits as one process, even after losses, and no processes left over."""

import os
import re
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from splat_cli.run.storage.run_dir import RunDir
from tests.ranks.runs import SETTINGS, bits
from tests.subprocesses import HANG, SPLAT, assert_gone, descendants, started, stopped_at_checkpoint, wait_until
from tests.training import Trained

pytest.importorskip("distributed", reason="clusters need the extra `cluster`")

from splat_cli.engine import rank_group
from tests.engine.dask_cluster import LEFT_OPEN, dask_cluster

pytestmark = pytest.mark.filterwarnings(LEFT_OPEN)

STEPS = 160  # more than a run makes between a checkpoint and the signal after it
CLUSTER = "--cluster=local:2"


@pytest.fixture(scope="module")
def expected(scene, tmp_path_factory):
    """Splats of the run in one process."""
    settings = {**SETTINGS, "steps": STEPS, "keep": 0}
    return bits(Trained(scene).new(tmp_path_factory.mktemp("runs") / "alone", **settings), STEPS)


def _training(scene, path):
    """The process of a training on two workers of this machine, in its own process group, as in a terminal."""
    command = [*SPLAT, *_command(scene, path), CLUSTER]
    return started(command, stderr=subprocess.PIPE, start_new_session=True)


def _command(scene, path):
    settings = {**SETTINGS, "steps": STEPS, "save_at": "", "checkpoint_minutes": 0}
    del settings["deterministic"]
    options = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    return ["train", scene, "-o", path, *options, "--gpus=2", "--deterministic", "--no-report", "--device=cpu"]


def _stopped_at_checkpoint(pid, run, rank=0):
    """The process of a rank below another process, stopped after the first checkpoint."""
    return stopped_at_checkpoint(pid, ("splat_cli.processes.child_process", "splat_cli.run.follower")[rank], run.path)


def _has_pending_sigterm(process):
    status = Path(f"/proc/{process.pid}/status").read_text()
    return any(int(mask, 16) >> signal.SIGTERM - 1 & 1 for mask in re.findall(r"(?:SigPnd|ShdPnd):\s*(\w+)", status))


def _at_checkpoint(run, work):
    """Call `work` in a thread with the process of rank 0 below this one, stopped after its first checkpoint."""
    threading.Thread(target=lambda: work(_stopped_at_checkpoint(os.getpid(), run)), daemon=True).start()


@pytest.mark.parametrize("rank", [0, 1])
def test_run_continues_after_a_lost_worker(scene, expected, tmp_path, rank):
    with _training(scene, tmp_path / "run") as process:
        child = _stopped_at_checkpoint(process.pid, RunDir(tmp_path / "run"), rank)
        before = descendants(process.pid)
        child.parent().kill()
        child.resume()
        err = process.communicate(timeout=HANG)[1]
    assert process.returncode == 0, err
    assert "; restarting from step " in err
    assert bits(RunDir(tmp_path / "run"), STEPS) == expected
    assert_gone(before)


def test_interrupted_run_is_saved_and_resumed(splat, scene, expected, tmp_path):
    run = RunDir(tmp_path / "run")
    with _training(scene, run.path) as process:
        child = _stopped_at_checkpoint(process.pid, run)
        before = descendants(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        wait_until(lambda: _has_pending_sigterm(child))
        child.resume()
        err = process.communicate(timeout=HANG)[1]
    assert process.returncode == 130, err
    assert err.splitlines()[-1].endswith(f"; continue with: splat train --resume {run.path} --cluster local:2")
    assert_gone(before)
    assert len(run.saved_steps()) == 1
    assert splat("train", "--resume", run.path, "--no-report", "--device=cpu", CLUSTER).code == 0
    assert bits(run, STEPS) == expected


def test_run_continues_with_fewer_workers_after_one_is_lost_for_good(splat, scene, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(rank_group, "_PATIENCE", 1.0)
    run = RunDir(tmp_path / "run")
    with dask_cluster(tmp_path / "cluster", 2) as cluster:

        def kill(child):
            child.parent().kill()
            child.resume()

        _at_checkpoint(run, kill)
        result = splat(*_command(scene, run.path), f"--cluster={cluster.address}")
    assert result.code == 0, result.err
    assert "The cluster has no 2 workers: continuing with --gpus 1" in result.err
    assert bits(run, STEPS) == expected


def test_interrupted_run_is_resumed_with_fewer_workers_of_another_cluster(splat, scene, expected, tmp_path):
    run = RunDir(tmp_path / "run")
    with dask_cluster(tmp_path / "cluster", 2) as cluster:

        def interrupt(child):
            os.kill(os.getpid(), signal.SIGINT)
            wait_until(lambda: _has_pending_sigterm(child))
            child.resume()

        _at_checkpoint(run, interrupt)
        assert splat(*_command(scene, run.path), f"--cluster={cluster.address}").code == 130
    resume = ("train", "--resume", run.path, "--no-report", "--device=cpu", "--cluster=local:1")
    refused = splat(*resume, "--gpus=2")
    assert (refused.code, "--gpus 2: too few workers in the cluster: 1" in refused.err) == (2, True)
    assert splat(*resume).code == 0
    assert bits(run, STEPS) == expected


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--viewer"], "--viewer does not work with --cluster"),
        (["--gpus=2", "--pose-opt"], "--gpus 2 does not work with --pose-opt"),
        (["--gpus=2", "--batch=3"], "--batch 3 is not a multiple of --gpus 2"),
        (["--resume=run"], "--resume keeps the run's folder"),
    ],
    ids=str,
)
def test_options_that_do_not_work_on_a_cluster_are_named(splat, scene, options, named):
    result = splat("train", scene, "-o", "out", *options, "--device=cpu", CLUSTER)
    assert (result.code, named in result.err) == (2, True)


def test_run_is_not_overwritten(splat, scene, trained):
    result = splat("train", scene, "-o", trained, "--device=cpu", CLUSTER)
    assert (result.code, "is a run already" in result.err) == (2, True)
