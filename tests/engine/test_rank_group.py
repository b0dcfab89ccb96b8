"""`splat train --gpus 2 --cluster`: the bits of one process, whatever is lost meanwhile, and no process left."""

import os
import signal
import subprocess

import psutil
import pytest

from splat_cli.run.storage.run_dir import RunDir
from tests.processes import HANG, SPLAT, started, wait_for_checkpoint
from tests.ranks.runs import SETTINGS, bits
from tests.training import Trained

pytest.importorskip("distributed", reason="clusters need the extra `cluster`")
STEPS = 160  # more than fit between a checkpoint and the signal after it
CLUSTER = ("--no-report", "--device=cpu", "--cluster=local:2")


@pytest.fixture(scope="module")
def expected(scene, tmp_path_factory):
    """Splats of the run in one process."""
    settings = {**SETTINGS, "steps": STEPS, "keep": 0}
    return bits(Trained(scene).new(tmp_path_factory.mktemp("runs") / "alone", **settings), STEPS)


def _training(scene, path):
    """The process of a training on two workers of this machine, in a group of its own as a terminal would make one."""
    settings = {**SETTINGS, "steps": STEPS, "save_at": "", "checkpoint_minutes": 0}
    del settings["deterministic"]
    options = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    command = [*SPLAT, "train", scene, "-o", path, *options, "--gpus=2", "--deterministic", *CLUSTER]
    return started(command, stderr=subprocess.PIPE, start_new_session=True)


def _descendants(process):
    return psutil.Process(process.pid).children(recursive=True)


def _process_of_rank(process, rank):
    module = ("splat_cli.child_process", "splat_cli.run.follower")[rank]
    (found,) = (one for one in _descendants(process) if module in one.cmdline())
    return found


def _assert_gone(processes):
    assert psutil.wait_procs(processes, timeout=HANG)[1] == []


@pytest.mark.parametrize("rank", [0, 1])
def test_run_goes_on_after_a_lost_worker(scene, expected, tmp_path, rank):
    with _training(scene, tmp_path / "run") as process:
        wait_for_checkpoint(process, tmp_path / "run")
        child = _process_of_rank(process, rank)
        child.suspend()  # so that the run cannot end before
        before = _descendants(process)
        child.parent().kill()
        child.resume()
        err = process.communicate(timeout=HANG)[1]
    assert process.returncode == 0, err
    assert "; restarting from step " in err
    assert bits(RunDir(tmp_path / "run"), STEPS) == expected
    _assert_gone(before)


def test_interrupted_run_is_saved_and_resumed(splat, scene, expected, tmp_path):
    run = RunDir(tmp_path / "run")
    with _training(scene, run.path) as process:
        wait_for_checkpoint(process, run.path)
        before = _descendants(process)
        os.killpg(process.pid, signal.SIGINT)
        err = process.communicate(timeout=HANG)[1]
    assert process.returncode == 130, err
    assert err.splitlines()[-1].endswith(f"; go on with: splat train --resume {run.path} --cluster local:2")
    _assert_gone(before)
    assert len(run.saved_steps()) == 1
    assert splat("train", "--resume", run.path, *CLUSTER).code == 0
    assert bits(run, STEPS) == expected


@pytest.mark.parametrize(("options", "named"), [
    (["--viewer"], "--viewer does not work with --cluster"),
    (["--gpus=2", "--pose-opt"], "--gpus 2 does not work with --pose-opt"),
    (["--gpus=2", "--batch=3"], "--batch 3 is no multiple of --gpus 2"),
    (["--resume=run"], "--resume keeps the run's folder"),
], ids=str)  # fmt: skip
def test_options_that_do_not_work_on_a_cluster_are_named(splat, scene, options, named):
    result = splat("train", scene, "-o", "out", *options, *CLUSTER)
    assert (result.code, named in result.err) == (2, True)


def test_run_is_not_overwritten(splat, scene, trained):
    result = splat("train", scene, "-o", trained, *CLUSTER)
    assert (result.code, "is a run already" in result.err) == (2, True)
