"""A disk that fills up while a run saves: a small tmpfs, if this process may mount one."""

import json
import subprocess

import pytest

from splat_cli.errors import DiskError
from splat_cli.io.files import replacing, require_space
from splat_cli.run.checkpoints import checkpointer
from splat_cli.run.checkpoints.checkpointer import Checkpointer, checkpoint_paths
from splat_cli.run.checkpoints.file import read_checkpoint
from splat_cli.run.storage.run_dir import RunDir
from tests.subprocesses import HANG


@pytest.fixture
def small_disk(tmp_path):
    """A folder on its own disk of 6 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=HANG)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this process may not mount a tmpfs")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True, timeout=HANG)


def _fill(folder, leave=0):
    """Writes a file that leaves `leave` bytes free."""
    with (folder / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            file.truncate(max(file.tell() - leave, 0))


def _fill_after_first_save(folder, monkeypatch):
    save = Checkpointer.save

    def save_and_fill(self, trainer, seconds):
        save(self, trainer, seconds)
        if not (folder / "filler").exists():
            self.finish()
            _fill(folder, leave=100_000)

    monkeypatch.setattr(Checkpointer, "save", save_and_fill)


@pytest.mark.parametrize("checked_before", [True, False])
def test_training_continues_and_older_checkpoints_stay(training, finished, small_disk, monkeypatch, checked_before):
    with monkeypatch.context() as patch:
        _fill_after_first_save(small_disk, patch)
        if not checked_before:
            patch.setattr(checkpointer, "require_space", lambda path, needed: None)
        with pytest.raises(DiskError, match=r"splat train --resume"):
            training.new(small_disk / "run", save_at=(40,))
    run = RunDir(small_disk / "run")
    warnings = [line for line in training.said if line.startswith("Warning: ")]
    assert any("checkpoints" in line and "older checkpoints are unchanged" in line for line in warnings)
    assert any("iteration_40" in line for line in warnings)
    assert run.saved_steps() == []
    assert not list(run.path.rglob(".*"))
    assert read_checkpoint(*checkpoint_paths(run.checkpoints_path)).step < 40
    for line in run.log.path.read_text().splitlines():
        json.loads(line)
    (small_disk / "filler").unlink()
    training.resume(run.path)
    assert run.ply_path(60).read_bytes() == finished.ply_path(60).read_bytes()


def test_a_file_that_does_not_fit_leaves_the_old_one(small_disk):
    path = small_disk / "file"
    path.write_bytes(b"before")
    with pytest.raises(DiskError, match="no space left"), replacing(path) as temporary:
        temporary.write_bytes(bytes(10_000_000))
    assert path.read_bytes() == b"before"
    assert [found.name for found in small_disk.iterdir()] == ["file"]


def test_require_space_refuses_what_does_not_fit(small_disk):
    require_space(small_disk / "new" / "run", 1_000_000)
    with pytest.raises(DiskError, match=r"needs 9\.5 MiB and the disk has [56]\.\d MiB"):
        require_space(small_disk / "new" / "run", 10_000_000)


def test_a_run_without_space_is_refused(training, small_disk):
    _fill(small_disk, leave=400_000)
    with pytest.raises(DiskError, match="free some"):
        training.new(small_disk / "run")
