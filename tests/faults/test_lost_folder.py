"""A run's folder is moved, removed or replaced during training: the run ends, and writes nothing more."""

import shutil
from pathlib import Path

import pytest

from splat_cli.errors import DiskError
from splat_cli.io.files import replacing, replacing_together
from splat_cli.io.folder_lock import LOCK_NAME, FolderLost, locked_folder, require_held
from splat_cli.run.checkpoints import checkpointer
from splat_cli.run.storage.find_run import new_locked_run
from splat_cli.run.storage.run_dir import RunDir
from tests.ranks.runs import called_once
from tests.subprocesses import wait_until


def _contents(folder):
    return {path.relative_to(folder): path.is_file() and path.read_bytes() for path in folder.rglob("*")}


def test_a_run_whose_folder_is_removed_ends(training, tmp_path):
    with pytest.raises(FolderLost, match="run was moved, removed or replaced while .*: nothing more is written there"):
        training.new(tmp_path / "run", called_once(lambda: shutil.rmtree(tmp_path / "run"), 16), save_at=(30,))
    assert list(tmp_path.iterdir()) == []


def test_a_run_whose_folder_is_moved_ends_and_continues_at_its_new_place(training, finished, tmp_path):
    path, place = tmp_path / "run", tmp_path / "place"
    with pytest.raises(FolderLost, match="if it was moved, continue in its new place"):
        training.new(path, called_once(lambda: path.rename(place), 16))
    assert not path.exists()
    run = training.resume(place)
    assert run.ply_path(60).read_bytes() == finished.ply_path(60).read_bytes()


@pytest.mark.parametrize("ended", [False, True])
def test_another_run_in_the_place_of_a_removed_one_is_not_touched(training, trained, tmp_path, ended):
    """ended: the other run has ended, and its lock is gone."""
    path, before = tmp_path / "run", {}

    def replace():
        shutil.rmtree(path)
        shutil.copytree(trained, path)
        if not ended:
            (path / LOCK_NAME).touch()
        before.update(_contents(path))

    with pytest.raises(FolderLost):
        training.new(path, called_once(replace, 16), save_at=(30,))
    assert before
    assert _contents(path) == before


def test_an_empty_folder_of_another_process_is_not_removed(tmp_path):
    """The first run fails after the second has created the folder again."""
    path = tmp_path / "run"

    def lose():
        with new_locked_run(path):
            shutil.rmtree(path)
            path.mkdir()
            (path / LOCK_NAME).touch()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        lose()
    assert (path / LOCK_NAME).is_file()


@pytest.mark.parametrize("replace", [replacing, replacing_together])
def test_a_file_is_not_written_into_a_folder_that_was_lost_meanwhile(tmp_path, replace):
    path = tmp_path / "run"
    with locked_folder(path, make=True):
        with pytest.raises(FolderLost), replace(path / "a" / "b") as temporary:
            shutil.rmtree(path)
        assert not path.exists()
        with pytest.raises(FolderLost), replace(path / "a" / "b") as temporary:
            raise AssertionError(temporary)
        assert not path.exists()
        path.mkdir()
        with pytest.raises(FolderLost):
            require_held(path / "c")
    require_held(path / "c")
    require_held(tmp_path / "else")


@pytest.mark.parametrize("replace", [replacing, replacing_together])
def test_a_file_is_not_written_once_another_process_has_the_lock(tmp_path, replace):
    """For example, this process was stopped for so long that its lock counted as lost."""
    path = tmp_path / "run"

    def write():
        with replace(path / "a") as temporary:
            (temporary if replace is replacing else temporary / "a").touch()
            (path / LOCK_NAME).unlink()
            (path / LOCK_NAME).touch()

    with locked_folder(path, make=True):
        with pytest.raises(FolderLost):
            write()
        assert [file.name for file in path.iterdir()] == [LOCK_NAME]


def test_a_line_is_not_added_to_the_log_of_another_run(tmp_path):
    run = RunDir(tmp_path / "run")
    with locked_folder(run.path, make=True):
        shutil.rmtree(run.path)
        run.path.mkdir()
        with pytest.raises(FolderLost):
            run.log.append({"step": 1})
        assert not run.log.path.exists()


def test_checkpoints_of_another_run_are_not_removed(training, tmp_path, monkeypatch):
    """The folder is replaced after a checkpoint was written, before older ones are removed."""
    path, other = tmp_path / "run", b"of another run"

    def write_and_replace(target, checkpoint):
        shutil.rmtree(path)
        target.parent.mkdir(parents=True)
        for step in (1, 2, 3):
            (target.parent / f"step_{step}.npz").write_bytes(other)

    monkeypatch.setattr(checkpointer, "write_checkpoint", write_and_replace)
    with pytest.raises(FolderLost):
        training.new(path, keep=1)
    assert _contents(path / "checkpoints") == {Path(f"step_{step}.npz"): other for step in (1, 2, 3)}


def test_a_lock_that_cannot_be_examined_is_a_disk_error(tmp_path, monkeypatch):
    path = tmp_path / "run"
    with locked_folder(path, make=True):
        stat = type(path).stat

        def fail(self, **options):
            if self.name == LOCK_NAME:
                raise OSError(5, "Input/output error")
            return stat(self, **options)

        monkeypatch.setattr(type(path), "stat", fail)
        with pytest.raises(DiskError, match="Input/output error"), replacing(path / "a"):
            pass
        monkeypatch.undo()
    assert not (path / LOCK_NAME).exists()


def test_the_heartbeat_of_a_lost_lock_stops(tmp_path, monkeypatch):
    monkeypatch.setattr("splat_cli.io.folder_lock._REFRESH_INTERVAL", 0.01)
    path = tmp_path / "run"
    with locked_folder(path, make=True):
        lock = path / LOCK_NAME
        first = lock.stat().st_mtime_ns
        wait_until(lambda: lock.stat().st_mtime_ns != first)
        shutil.rmtree(path)
        path.mkdir()
        lock.touch()
        first = lock.stat().st_mtime_ns
        with pytest.raises(TimeoutError):
            _wait_a_little(lambda: lock.stat().st_mtime_ns != first)


def _wait_a_little(condition):
    import time

    end = time.monotonic() + 0.3
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.01)
