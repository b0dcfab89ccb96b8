"""Waiting for a folder's lock: released, held, and held by a lost computer."""

import errno
import os
import sys
import threading
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from splat_cli.errors import UsageError
from splat_cli.io import folder_lock
from splat_cli.io.folder_lock import LOCK_NAME, FolderInUse, locked_file, locked_folder, wait_until_unlocked
from tests.subprocesses import finished


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr(folder_lock, "_POLL", 0.01)
    monkeypatch.setattr(folder_lock, "_REFRESH_INTERVAL", 0.01)
    monkeypatch.setattr(folder_lock, "_LOST", 0.1)


def _wait(folder, patience=60.0, is_cancelled=lambda: False):
    said = []
    wait_until_unlocked(folder, patience, is_cancelled, said.append)
    return said


def test_free_folder_is_not_waited_for(tmp_path):
    assert _wait(tmp_path) == []
    (tmp_path / LOCK_NAME).touch()  # a killed process left it
    assert _wait(tmp_path) == []


def test_a_folder_that_cannot_be_made_ends_the_wait(tmp_path, monkeypatch):
    """In /proc, the system says that a new folder does not exist."""
    monkeypatch.setattr(Path, "mkdir", Mock(side_effect=FileNotFoundError(errno.ENOENT, "No such file or directory")))
    with pytest.raises(UsageError, match="cannot be written: No such file"), locked_folder(tmp_path / "a", make=True):
        pass


@pytest.mark.parametrize("content", [[], ["result"]])
def test_folders_made_for_a_lock_are_removed_if_an_error_leaves_them_empty(tmp_path, content):
    def fail():
        with locked_folder(tmp_path / "a" / "b", make=True):
            for name in content:
                (tmp_path / "a" / "b" / name).touch()
            raise UsageError

    with pytest.raises(UsageError):
        fail()
    assert (tmp_path / "a").exists() == bool(content)


def test_an_empty_folder_outlives_an_error_within_its_lock(tmp_path):
    with pytest.raises(UsageError), locked_folder(tmp_path, make=True):
        raise UsageError
    assert tmp_path.exists()


def test_lock_is_waited_for(hasty, tmp_path):
    inside, leave = threading.Event(), threading.Event()

    def hold():
        with locked_folder(tmp_path):
            inside.set()
            leave.wait()

    threading.Thread(target=hold).start()
    inside.wait()
    said = []
    wait_until_unlocked(tmp_path, 60, lambda: False, lambda text: (said.append(text), leave.set()))
    assert said[0].startswith("waits for another process (process ")
    with locked_folder(tmp_path):
        pass


def test_lock_of_a_living_process_is_kept(hasty, tmp_path, monkeypatch):
    with locked_folder(tmp_path):
        monkeypatch.setattr(folder_lock, "_computer", lambda: "another")
        start = time.monotonic()
        assert len(_wait(tmp_path, patience=0.5)) == 1
        assert time.monotonic() - start >= 0.5
        with pytest.raises(FolderInUse), locked_folder(tmp_path):
            pass


def test_lock_of_a_lost_computer_is_removed(hasty, tmp_path, monkeypatch):
    monkeypatch.setattr(folder_lock, "_REFRESH_INTERVAL", 60.0)
    with locked_folder(tmp_path):
        assert len(_wait(tmp_path, patience=0.5)) == 1  # a lock of this computer, which the system would have released
        monkeypatch.setattr(folder_lock, "_computer", lambda: "another")
        _wait(tmp_path)
        with locked_folder(tmp_path):
            pass


def test_the_locked_byte_is_not_written(tmp_path):
    """On Windows, only the handle that locked a file can write to it, and another handle writes the holder's name."""
    with locked_folder(tmp_path):
        assert (tmp_path / LOCK_NAME).read_bytes().startswith(b"\0process ")


def test_a_lock_file_that_cannot_be_removed_is_waited_for(hasty, tmp_path, monkeypatch):
    """On Windows this happens while the holder has the file open."""
    monkeypatch.setattr(folder_lock, "_REFRESH_INTERVAL", 60.0)
    with locked_folder(tmp_path), monkeypatch.context() as patch:
        patch.setattr(folder_lock, "_computer", lambda: "another")
        patch.setattr(Path, "unlink", Mock(side_effect=PermissionError(errno.EACCES, "Permission denied")))
        assert len(_wait(tmp_path, patience=0.3)) == 1


def test_waiting_can_be_cancelled(tmp_path):
    with locked_folder(tmp_path):
        assert _wait(tmp_path, is_cancelled=lambda: True) == []


_KILLED = """
import errno, fcntl, os, sys
from pathlib import Path
from unittest.mock import Mock
fcntl.flock = Mock(side_effect=OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)))
from splat_cli.io.folder_lock import locked_folder
with locked_folder(Path(sys.argv[1])):
    os._exit(0)
"""


@pytest.fixture
def without_flock(monkeypatch):
    fcntl = pytest.importorskip("fcntl", reason="a lock of other systems")
    monkeypatch.setattr(fcntl, "flock", Mock(side_effect=OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))))
    with pytest.warns(UserWarning, match="flock not supported"):
        yield


def test_a_killed_process_holds_no_lock_on_a_disk_without_flock(without_flock, tmp_path):
    killed = finished([sys.executable, "-c", _KILLED, tmp_path])
    assert killed.returncode == 0, killed.stderr
    assert (tmp_path / LOCK_NAME).exists()
    with locked_folder(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_lock_of_another_computer_without_flock_is_named(without_flock, tmp_path):
    (tmp_path / LOCK_NAME).write_text("7\nfar-away\n123\n")
    with pytest.raises(FolderInUse, match=rf"by process 7: .* if it has ended .*, remove {tmp_path / LOCK_NAME}"):
        locked_folder(tmp_path).__enter__()


def test_changes_of_a_file_by_several_writers_do_not_mix(tmp_path):
    path = tmp_path / "counts"
    path.write_text("")

    def add():
        for _ in range(5):
            with locked_file(path):
                content = path.read_text()
                time.sleep(0.001)
                path.write_text(f"{content}x")

    writers = [threading.Thread(target=add) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(path.read_text()) == 20
    assert [found.name for found in tmp_path.iterdir()] == ["counts"]


def test_a_file_is_changed_where_no_lock_can_be_made(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_lock, "_CHANGE", 0.0)
    with locked_file(tmp_path / "missing" / "a"):
        pass
    with locked_file(tmp_path / "a"), locked_file(tmp_path / "a"):  # kept by a killed process on some disks
        (tmp_path / "a").touch()
    assert [found.name for found in tmp_path.iterdir()] == ["a"]
