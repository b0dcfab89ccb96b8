"""Jobs on this machine: results, several at a time, and their end with the engine or with this process."""

import dataclasses
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from splat_cli.engine import open_engine
from splat_cli.engine import process as job_process
from splat_cli.engine.engine import LocalEngine
from splat_cli.engine.job import Job, JobResult
from splat_cli.engine.process import run_job
from splat_cli.io.folder_lock import locked_folder
from tests.subprocesses import HANG, endless_training, finished, started, wait_for_checkpoint


def job(folder, *arguments, name="job"):
    """A job with its log in `folder`."""
    return Job(name, arguments, folder, Path("log"))


def training_job(folder, scene):
    """A job that trains for hours and writes run/."""
    return job(folder, *endless_training(scene, Path("run")))


def test_results_of_jobs(tmp_path):
    with open_engine("cpu") as engine:
        engine.submit(job(tmp_path, "info", "nothing", "--json", name="first"))
        engine.submit(job(tmp_path, "--version", name="second"))
        first, second = engine.results()
        assert list(engine.results()) == []
    assert (first.job.name, first.exit_code, first.json_output()["exit_code"]) == ("first", 2, 2)
    assert first.message == "Error: nothing does not exist; name a scene, the folder of a run or a file of splats"
    assert (second.exit_code, second.output.split()[0]) == (0, "splat,")
    assert second.seconds > 0


def test_output_of_libraries_before_the_result_is_ignored(tmp_path):
    printed = 'Warning: of a decoder\n{"steps": 5}\n'
    assert JobResult(job(tmp_path), 0, 1.0, "", printed, "").json_output() == {"steps": 5}
    assert "error" in JobResult(job(tmp_path), 0, 1.0, "", "5\n", "").json_output()


def test_an_engine_runs_a_job_per_device(tmp_path):
    engine = LocalEngine([{"CUDA_VISIBLE_DEVICES": "5"}, {"CUDA_VISIBLE_DEVICES": "7"}], lambda: None, print)
    for number in range(3):
        engine.submit(job(tmp_path, "--version", name=str(number)))
    results = list(engine.results())
    engine.close()
    assert {result.job.name for result in results} == {"0", "1", "2"}
    assert {result.place for result in results} == {"GPU 5", "GPU 7"}


def order_of_jobs(engine, folder):
    """The order in which an engine of one device runs jobs of different priorities."""
    engine.submit(dataclasses.replace(job(folder, "--version", name="first"), priority=9))
    for number, priority in enumerate((0, 2, 0, 2, 1)):
        engine.submit(dataclasses.replace(job(folder, "--version", name=str(number)), priority=priority))
    first, *others = [result.job.name for result in engine.results()]
    engine.close()
    assert first == "first"
    return others


def test_jobs_of_higher_priority_begin_first(tmp_path):
    assert order_of_jobs(LocalEngine([{}], lambda: None, print), tmp_path) == ["1", "3", "4", "0", "2"]


def test_crash_is_reported_with_the_last_line_of_the_log(tmp_path, monkeypatch):
    (tmp_path / "numpy.py").write_text("raise SystemError('broken')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with open_engine("cpu") as engine:
        engine.submit(Job("job", ("info", "x"), tmp_path, Path("log")))
        (result,) = engine.results()
    assert result.json_output()["exit_code"] == 1
    assert "SystemError" in result.json_output()["error"]


def test_a_job_that_cannot_start_fails_alone(tmp_path):
    (tmp_path / "bad").mkdir()
    with open_engine("cpu") as engine:
        engine.submit(Job("first", ("--version",), tmp_path, Path("bad")))
        engine.submit(Job("second", ("--version",), tmp_path, Path("log"), run=Path("/proc/run")))
        engine.submit(job(tmp_path, "--version", name="third"))
        results = {result.job.name: result for result in engine.results()}
    assert f"{tmp_path / 'bad'}: Is a directory" in results["first"].json_output()["error"]
    assert [results[name].exit_code for name in ("first", "second", "third")] == [1, 0, 0]


def test_a_job_that_does_not_end_is_killed(tmp_path, monkeypatch):
    """The job ignores SIGTERM, here in a module that it imports."""
    text = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nopen('ready', 'w').close()\n"
    (tmp_path / "numpy.py").write_text(f"{text}time.sleep({HANG})\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(job_process, "SAVING", 0.5)
    is_ready = (tmp_path / "ready").exists
    result = run_job(job(tmp_path, "info", "x"), {}, "here", is_ready)
    assert result.exit_code == -9


def test_job_saves_and_ends_with_its_parent(scene, tmp_path):
    program = f"""if True:
        from pathlib import Path
        from splat_cli.engine import open_engine
        from splat_cli.engine.engine import LocalEngine
        from tests.engine.test_local import training_job
        with open_engine("cpu") as engine:
            engine.submit(training_job(Path({str(tmp_path)!r}), {str(scene)!r}))
            list(engine.results())
        """
    with started([sys.executable, "-c", program]) as parent:
        wait_for_checkpoint(parent, tmp_path / "run")
        (child,) = psutil.Process(parent.pid).children()
        parent.kill()
        parent.wait()
    child.wait(timeout=HANG)
    assert "Interrupted after step" in (tmp_path / "log").read_text()


def test_job_waits_for_the_process_of_an_earlier_command(tmp_path):
    """The process may belong to a killed command, or to a cluster that saves."""
    said, lock = [], ExitStack()
    lock.enter_context(locked_folder(tmp_path / "run", make=True))
    with open_engine("cpu", say=lambda line: said.append(line) or lock.close()) as engine:
        engine.submit(dataclasses.replace(job(tmp_path, "--version"), run=Path("run")))
        (result,) = engine.results()
    assert result.exit_code == 0
    assert [line.partition(" (")[0] for line in said] == ["job: waits for another process"]


def test_closed_engine_does_not_wait_for_other_processes(tmp_path):
    said = []

    def check():
        if said:
            raise KeyboardInterrupt

    engine = LocalEngine([{}], check, said.append)
    with locked_folder(tmp_path / "run", make=True):
        engine.submit(dataclasses.replace(job(tmp_path, "--version"), run=Path("run")))
        with pytest.raises(KeyboardInterrupt):
            list(engine.results())
        engine.close()
    assert not (tmp_path / "log").exists()


_SAVE_ON_WINDOWS = """
import os, signal, sys, threading
from splat_cli.processes import child_process

def save(number, frame):
    print("saved", flush=True)
    os._exit(0)

signal.signal(signal.SIGTERM, save)
os.kill = lambda *arguments: os._exit(9)  # ends a process at once on Windows
sys.platform = "win32"
child_process.end_with_parent(60.0)
while True:
    threading.Event().wait(0.01)
"""


def test_a_child_on_windows_saves_when_its_parent_ends():
    done = finished([sys.executable, "-c", _SAVE_ON_WINDOWS], stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (0, "saved\n"), done.stderr


def test_a_job_on_windows_is_told_to_end_by_its_standard_input(monkeypatch):
    """Windows has no SIGTERM to make the job save."""
    monkeypatch.setattr(job_process, "sys", SimpleNamespace(platform="win32"))
    with started([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        job_process._interrupt(process)
        assert process.wait(HANG) == 0
