"""Write errors other than a full disk: training continues, and the last checkpoint is kept."""

import errno
import os
import stat
from pathlib import Path

import pytest

from splat_cli.errors import DiskError, UsageError
from splat_cli.io.files import flush, replacing, replacing_together, write_error
from splat_cli.run.checkpoints.checkpointer import Checkpointer, checkpoint_paths, newest_checkpoint
from splat_cli.run.checkpoints.file import read_checkpoint
from splat_cli.run.storage.run_dir import RunDir


@pytest.mark.parametrize("name", ["x" * 251 + ".png", "\N{FOX FACE}" * 62 + ".png"])
def test_files_have_names_as_long_as_the_system_allows(tmp_path, name):
    """Temporary names are shorter. They differ even if two names differ only at the end."""
    other = name[:-5] + "y.pn"
    with replacing(tmp_path / name) as first, replacing(tmp_path / other) as second:
        first.write_text("first")
        second.write_text("second")
    assert [(tmp_path / written).read_text() for written in (name, other)] == ["first", "second"]
    assert len(list(tmp_path.iterdir())) == 2


def test_links_stay_and_their_files_are_replaced(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "splats.ply", tmp_path / "latest.ply"
    link.symlink_to(target)
    for text in ("first", "second"):
        with replacing(link) as temporary:
            temporary.write_text(text)
        assert link.is_symlink()
        assert target.read_text() == text
    assert len(list(tmp_path.rglob("*"))) == 3


def test_a_file_that_was_not_renamed_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "replace", lambda path, target: target)
    with pytest.raises(DiskError, match="renaming had no effect"), replacing(tmp_path / "a") as temporary:
        temporary.write_text("text")


def test_an_index_does_not_replace_without_all_of_its_files(tmp_path, monkeypatch):
    """A folder that cannot be listed does not count as empty."""
    index, scandir = tmp_path / "index.json", os.scandir

    def refuse(path="."):
        if str(path).endswith("chunks"):  # rmtree passes file descriptors as paths
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    def write():
        with replacing_together(index) as temporary:
            (temporary / "chunks").mkdir()
            (temporary / "chunks" / "a").write_text("chunk")
            (temporary / "index.json").write_text("index")

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", refuse)
        with pytest.raises(DiskError, match="Permission denied"):
            write()
    assert not index.exists()
    write()
    assert (index.read_text(), (tmp_path / "chunks" / "a").read_text()) == ("index", "chunk")


def test_files_are_flushed_through_a_writable_descriptor(tmp_path, monkeypatch):
    """Windows requires this."""
    modes = []
    monkeypatch.setattr(os, "fsync", lambda handle: modes.append(os.write(handle, b"")))
    (tmp_path / "a").write_text("text")
    flush(tmp_path / "a")
    assert modes == [0]
    assert (tmp_path / "a").read_text() == "text"


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP])
def test_disks_that_flush_no_folders_are_written(tmp_path, monkeypatch, code):
    """Some FUSE and SMB disks flush only files. A file that cannot be flushed is an error."""

    def refuse(handle, refused):
        if stat.S_ISDIR(os.fstat(handle).st_mode) == refused:
            raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", lambda handle: refuse(handle, True))
    with replacing(tmp_path / "a", durable=True) as temporary:
        temporary.write_text("text")
    assert (tmp_path / "a").read_text() == "text"
    monkeypatch.setattr(os, "fsync", lambda handle: refuse(handle, False))
    with pytest.raises(DiskError, match=os.strerror(code)), replacing(tmp_path / "b", durable=True) as temporary:
        temporary.write_text("text")


@pytest.mark.parametrize(
    ("number", "code", "text"),
    [
        (errno.ENOSPC, 1, "no space left"),
        (errno.EFBIG, 1, "ulimit -f"),
        (errno.EIO, 1, "Input/output error; check the disk"),
        (errno.EACCES, 2, "Permission denied; make it writable, or choose another place"),
        (errno.EEXIST, 2, "File exists; make it writable, or choose another place"),
    ],
)
def test_every_write_error_is_a_disk_error(number, code, text):
    error = write_error(Path("x.ply"), OSError(number, os.strerror(number)))
    assert isinstance(error, DiskError)
    assert (error.exit_code, isinstance(error, UsageError)) == (code, code == 2)
    assert text in str(error)
    assert "\n" not in str(error)


def _block(monkeypatch, run, *steps):
    """Before the first checkpoint, creates files in the places of these steps' folders."""
    save = Checkpointer.save

    def block_and_save(self, trainer, seconds):
        for step in steps:
            with replacing(run.ply_path(step).parent) as temporary:
                temporary.touch()
        save(self, trainer, seconds)

    monkeypatch.setattr(Checkpointer, "save", block_and_save)


def test_training_continues_if_a_file_blocks_a_folder(training, finished, tmp_path, monkeypatch):
    run = RunDir(tmp_path / "run")
    with monkeypatch.context() as patch:
        _block(patch, run, 40, 60)
        with pytest.raises(DiskError, match=r"iteration_60.*, then: splat train --resume") as caught:
            training.new(run.path, save_at=(40,))
    assert caught.value.exit_code == 1
    assert any("iteration_40" in line and "training continues" in line for line in training.said)
    assert read_checkpoint(checkpoint_paths(run.checkpoints_path)[0]).step == 60
    for step in (40, 60):
        run.ply_path(step).parent.unlink()
    training.resume(run.path)
    assert run.ply_path(60).read_bytes() == finished.ply_path(60).read_bytes()


def test_an_old_checkpoint_that_cannot_be_removed_is_a_warning(training, tmp_path, monkeypatch):
    unlink = Path.unlink

    def refuse(self, missing_ok=False):
        if self.suffix == ".npz":
            raise OSError(errno.EACCES, "Permission denied")
        unlink(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    run = training.new(tmp_path / "run", keep=1)
    assert run.result()["steps"] == 60
    assert any("cannot be removed: Permission denied" in line for line in training.said)


def test_a_folder_named_like_a_checkpoint_is_skipped(copy, monkeypatch):
    newest, before = checkpoint_paths(copy.checkpoints_path)
    newest.unlink()
    newest.mkdir()
    said = []
    assert newest_checkpoint(copy.checkpoints_path, said.append).step == read_checkpoint(before).step
    assert "cannot be read: Is a directory; trying the one before" in said[0]
