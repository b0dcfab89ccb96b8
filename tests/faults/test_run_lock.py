"""Two processes that lock one folder at the same time: only one succeeds."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from splat_cli.errors import UsageError
from splat_cli.io.folder_lock import LOCK_NAME, locked_folder
from splat_cli.run.storage.find_run import new_locked_run
from tests.subprocesses import started

_TAKE = """
import sys, time
from pathlib import Path
from splat_cli.errors import UsageError
from splat_cli.run.storage.find_run import new_locked_run
print("here", flush=True)
for line in sys.stdin:
    path, begin = line.split()
    while time.time() < float(begin):
        pass
    try:
        with new_locked_run(Path(path)) as run:
            time.sleep(0.02)
            run.log.append({"step": 1})
        print("done", flush=True)
    except UsageError as error:
        print(error, flush=True)
"""


def test_one_of_two_processes_gets_the_folder(tmp_path):
    """Each pair starts at the same moment, in processes that are already running."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with started([sys.executable, "-c", _TAKE], **pipes) as one, started([sys.executable, "-c", _TAKE], **pipes) as two:
        assert [program.stdout.readline() for program in (one, two)] == ["here\n", "here\n"]
        for trial in range(30):
            path = tmp_path / f"runs-{trial}" / "run"
            begin = time.time() + 0.03
            for program in (one, two):
                program.stdin.write(f"{path} {begin}\n")
                program.stdin.flush()
            said = sorted(program.stdout.readline().strip() for program in (one, two))
            assert "done" in said, said
            assert (path / "train.jsonl").is_file()
            other = next((line for line in said if line != "done"), "is in use")
            assert "is in use" in other or "holds other files" in other
            assert not (path / LOCK_NAME).exists()


def test_the_second_process_does_not_remove_the_folder(tmp_path, monkeypatch):
    """Both processes find no folder; one locks it before the other creates it."""
    path, mkdir = tmp_path / "run", Path.mkdir
    first = new_locked_run(path)

    def mkdir_after_first(self, *args, **kwargs):
        monkeypatch.undo()
        first.__enter__()
        mkdir(self, *args, **kwargs)

    monkeypatch.setattr(Path, "mkdir", mkdir_after_first)
    with pytest.raises(UsageError, match="in use"), new_locked_run(path):
        pass
    assert path.is_dir()
    first.__exit__(None, None, None)


def test_a_folder_that_its_user_removed_is_made_again(tmp_path):
    """The lock of a removed folder does not count."""

    def fail(number):
        with pytest.raises((ZeroDivisionError, UsageError)) as caught, new_locked_run(tmp_path / "run"):
            raise ZeroDivisionError
        return caught.type

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(fail, range(200)))
    with new_locked_run(tmp_path / "run") as run:
        run.log.append({"step": 1})
    assert run.log.path.is_file()


_HOLD = """
import sys
from pathlib import Path
from splat_cli.io.folder_lock import locked_folder
with locked_folder(Path(sys.argv[1]), make=True):
    print("locked", flush=True)
    input()
"""


def test_message_names_the_holder_and_a_killed_process_holds_nothing(tmp_path):
    folder = tmp_path / "run"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with started([sys.executable, "-c", _HOLD, folder], **pipes) as holder:
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(UsageError, match=rf"run is in use by another process \(process {holder.pid} on .*: -c"):
            locked_folder(folder).__enter__()
    assert (folder / LOCK_NAME).is_file()
    with locked_folder(folder):
        pass
    assert list(folder.iterdir()) == []


def test_an_unreadable_holder_is_another_process(tmp_path):
    with locked_folder(tmp_path / "run", make=True):
        (tmp_path / "run" / LOCK_NAME).write_bytes(b"")
        with pytest.raises(UsageError, match="run is in use by another process: wait"):
            locked_folder(tmp_path / "run").__enter__()


def test_a_lock_of_a_folder_made_again_is_left_to_its_holder(tmp_path):
    folder = tmp_path / "run"
    with locked_folder(folder, make=True):
        (folder / LOCK_NAME).unlink()
        folder.rmdir()
        second = locked_folder(folder, make=True)
        second.__enter__()
    with pytest.raises(UsageError, match="in use"):
        locked_folder(folder).__enter__()
    second.__exit__(None, None, None)
