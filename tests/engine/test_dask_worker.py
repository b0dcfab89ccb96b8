"""Jobs and ranks in a worker of a Dask cluster, tested without a cluster."""

import errno
import platform
import re
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("distributed", reason="clusters need the extra `cluster`")
from distributed import Reschedule

import splat_cli
from splat_cli.engine import dask_worker
from splat_cli.engine.dask_calls import remote_call
from splat_cli.engine.dask_worker import Failure, RankTask, follow, lead, run_on_worker
from splat_cli.engine.job import Job
from splat_cli.errors import SplatError
from splat_cli.ranks.links import listening
from tests.engine.test_local import training_job


class FakeWorker:
    """Stand-in for a Dask worker with the methods that a job uses. said: its events."""

    address = "tcp://somewhere:1"

    def __init__(self):
        self.said = []
        self.status = SimpleNamespace(name="running")
        self.state = SimpleNamespace(tasks={"key": SimpleNamespace(state="executing")})

    def get_current_task(self):
        return "key"

    def log_event(self, topic, message):
        self.said.append(message)


@pytest.fixture
def worker(monkeypatch):
    worker = FakeWorker()
    monkeypatch.setattr(dask_worker, "get_worker", lambda: worker)
    dask_worker._free_devices.cache_clear()
    return worker


@pytest.fixture
def started(worker, monkeypatch):
    """Sets an event when the process of a job is about to start."""
    event, run_job = threading.Event(), dask_worker.run_job
    monkeypatch.setattr(dask_worker, "run_job", lambda *arguments: event.set() or run_job(*arguments))
    return event


def job(folder, *arguments, inputs=()):
    (folder / "log").touch()
    return Job("job", arguments, folder, Path("log"), inputs=inputs)


def run(job):
    return run_on_worker(job, "cpu", "topic")


def test_job_runs_and_tells_where(worker, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    result = run(job(tmp_path, "--version"))
    assert (result.exit_code, result.output.split()[0]) == (0, "splat,")
    (line,) = worker.said
    assert line.startswith("job: runs on ")
    assert worker.address in line
    assert not dask_worker.still_running({"key"})


def test_other_version_is_reported(monkeypatch):
    call, work = remote_call(str, 5)
    assert call(work) == "5"
    monkeypatch.setattr(splat_cli, "__version__", "0.0")
    with pytest.raises(ImportError, match=r": it has 0\.0$"):
        call(work)


@pytest.mark.parametrize("missing", ["log", "scene"])
def test_invisible_folder_is_reported(worker, tmp_path, missing):
    one = job(tmp_path, "--version", inputs=(Path("scene"),))
    (tmp_path / "scene").mkdir()
    (tmp_path / "scene").rmdir() if missing == "scene" else (tmp_path / "log").unlink()
    assert re.search(f"{missing} is not visible on .*: use a folder that all machines", run(one).reason)


def _after_start(started, change):
    def work():
        started.wait()
        change()

    threading.Thread(target=work, daemon=True).start()


def test_dropped_job_is_interrupted(worker, started, tmp_path, scene):
    _after_start(started, worker.state.tasks.clear)
    (tmp_path / "log").touch()
    assert run(training_job(tmp_path, scene)).exit_code in (143, -15)


def test_job_of_a_closing_worker_is_rescheduled(worker, started, tmp_path, scene):
    _after_start(started, lambda: setattr(worker.status, "name", "closing_gracefully"))
    (tmp_path / "log").touch()
    with pytest.raises(Reschedule):
        run(training_job(tmp_path, scene))
    assert "to be continued elsewhere" in worker.said[-1]


def test_rank_that_cannot_reach_rank_0_tells_so(worker, tmp_path):
    with listening("127.0.0.1") as server:
        address = server.getsockname()[:2]
    work = RankTask(job(tmp_path, "--version"), 2, "cpu", "topic", b"key")
    message = r"\(tcp://somewhere:1\) cannot reach rank 0 at 127.0.0.1, port \d+ \(Connection refused\): workers must"
    with pytest.raises(SplatError, match=message):
        follow(work, 1, address, [])
    assert not dask_worker.still_running({"key"})


def test_leading_rank_that_is_dropped_waits_no_more(worker, tmp_path):
    work = RankTask(job(tmp_path, "--version"), 2, "cpu", "topic", b"key")
    worker.address = "tcp://127.0.0.1:1"
    worker.log_event = lambda topic, message: worker.said.append(message) or worker.state.tasks.clear()
    with pytest.raises(Reschedule):
        lead(work)
    ((kind, rank, address, paths),) = worker.said
    assert (kind, rank, address[0], len(paths)) == ("listens", 0, "127.0.0.1", 5)


def test_a_device_has_one_job_at_a_time(worker, monkeypatch):
    environments = [{"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "1"}]
    monkeypatch.setattr(dask_worker, "device_environments", lambda device: environments)
    task = dask_worker._Task("topic")
    with task.on_free_device("cuda") as (_, first), task.on_free_device("cuda") as (_, second):
        assert sorted([first["CUDA_VISIBLE_DEVICES"], second["CUDA_VISIBLE_DEVICES"]]) == ["0", "1"]
        assert dask_worker.still_running({"key", "other"})
        assert not dask_worker.still_running({"other"})
        worker.status.name = "closing"
        with pytest.raises(Reschedule), task.on_free_device("cuda"):
            pass
        worker.status.name = "running"
    with task.on_free_device("cuda") as (place, third):
        assert third in environments
        assert place == f"{task.place}, GPU {third['CUDA_VISIBLE_DEVICES']}"


def test_a_failing_worker_is_named(worker, tmp_path, monkeypatch):
    monkeypatch.setattr(dask_worker, "run_job", failing)
    failure = run(job(tmp_path, "--version"))
    assert failure == Failure(worker.address, f"{platform.node()} (tcp://somewhere:1) cannot run it ({REASON})", 1)


REASON = "log: No space left"


def failing(job, *_):
    raise OSError(errno.ENOSPC, "No space left", str(job.log))
