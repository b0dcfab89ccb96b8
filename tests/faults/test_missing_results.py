"""A resume writes results that a full disk or a kill prevented, also after the last step."""

import json
import shutil

import pytest

from splat_cli.errors import DiskError, UsageError
from splat_cli.run.checkpoints.checkpointer import Checkpointer, checkpoint_paths
from splat_cli.run.checkpoints.file import read_checkpoint
from splat_cli.run.run_writer import RunWriter
from splat_cli.run.storage.run_dir import RunDir
from tests.subprocesses import wait_until
from tests.training import Trained

EVALUATED = {"eval": True, "test_every": 3, "save_at": (30,), "keep": 1}


@pytest.fixture(scope="module")
def whole(scene, tmp_path_factory):
    """A run that saves after 30 of 60 steps, with scores. Do not modify."""
    return Trained(scene).new(tmp_path_factory.mktemp("runs") / "whole", **EVALUATED)


def _compare(run, whole):
    for step in (30, 60):
        assert run.ply_path(step).read_bytes() == whole.ply_path(step).read_bytes()
        assert run.metrics()["steps"][str(step)]["per_image"] == whole.metrics()["steps"][str(step)]["per_image"]


def _fail_at(monkeypatch, what, step):
    """The method `what` of RunWriter fails at this step."""
    method = getattr(RunWriter, what)

    def fail_once(self, *args, **options):
        if self.trainer.step == step:
            raise DiskError("x.ply was not written: no space left on the disk; free some there")
        return method(self, *args, **options)

    monkeypatch.setattr(RunWriter, what, fail_once)


@pytest.mark.parametrize("what", ["save_splats", "_evaluate"])
def test_a_resume_writes_what_a_full_disk_prevented(training, whole, tmp_path, monkeypatch, what):
    with monkeypatch.context() as patch:
        _fail_at(patch, what, 30)
        run = training.new(tmp_path / "run", **EVALUATED)
    assert any("splat train --resume makes up for it later" in line for line in training.said)
    assert run.result()["steps"] == 60
    assert [read_checkpoint(path).step for path in checkpoint_paths(run.checkpoints_path)] == [60, 30]
    training.resume(run.path)
    _compare(run, whole)
    with pytest.raises(UsageError, match="is finished after 60 steps"):
        training.resume(run.path, report=False)


@pytest.mark.parametrize("lost", ["splats", "scores"])
def test_a_run_killed_between_a_checkpoint_and_its_results(training, whole, tmp_path, monkeypatch, lost):
    class Killed(BaseException):
        """Ends the run at once."""

    def kill(self, *args, **options):
        if self.trainer.step == 30:
            raise Killed
        return method(self, *args, **options)

    name = "save_splats" if lost == "splats" else "_evaluate"
    method = getattr(RunWriter, name)
    with monkeypatch.context() as patch:
        patch.setattr(RunWriter, name, kill)
        patch.setattr(Checkpointer, "_due", lambda self, step: step == 30)
        with pytest.raises(Killed):
            training.new(tmp_path / "run", **EVALUATED)
    run = RunDir(tmp_path / "run")
    wait_until(lambda: checkpoint_paths(run.checkpoints_path))
    training.resume(run.path)
    assert "Continuing from step 30" in training.said
    _compare(run, whole)


def test_a_checkpoint_is_on_disk_before_the_first_splats(training, tmp_path, monkeypatch):
    """A run with saved splats but no checkpoint cannot be resumed."""

    class Killed(BaseException):
        """Ends the run at once."""

    def kill(self, *args, **options):
        raise Killed

    monkeypatch.setattr(RunWriter, "write", kill)
    with pytest.raises(Killed):
        training.new(tmp_path / "run", save_at=(30,), checkpoint_every=0, checkpoint_minutes=0.0)
    assert (tmp_path / "run" / "checkpoints" / "step_30.npz").is_file()


def test_a_finished_run_without_a_report_gets_one(splat, trained, tmp_path):
    run = RunDir(shutil.copytree(trained, tmp_path / "run"))
    expected = run.result()
    run.report_path.unlink()
    result = splat("train", "--resume", run.path, "--device", "cpu", "--json")
    assert result.code == 0, result.err
    assert run.report_path.is_file()
    assert json.loads(result.out) == {**expected, "run": str(run.path), "ply": str(run.ply_path(20))}
    assert "is finished after 20 steps" in splat("train", "--resume", run.path).err
