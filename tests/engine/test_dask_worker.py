"""What a worker of a Dask cluster does with a job, or a rank of one, without a cluster."""

import dataclasses
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("distributed", reason="clusters need the extra `cluster`")
from distributed import CancelledError, KilledWorker, Reschedule

from splat_cli import __version__
from splat_cli.engine import dask_worker
from splat_cli.engine.dask_engine import DaskEngine
from splat_cli.engine.dask_worker import run_on_worker
from splat_cli.engine.job import Job
from splat_cli.engine.rank_worker import RankTask, follow, lead
from splat_cli.errors import SplatError, UsageError
from splat_cli.ranks.links import listening
from tests.engine.test_local import training_job


class FakeWorker:
    """As much of a Dask worker as a job uses; `said`: its events."""

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
    monkeypatch.setattr(dask_worker, "_free_devices", {})
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
    return run_on_worker(job, "cpu", __version__, "topic")


def test_job_runs_and_tells_where(worker, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    result = run(job(tmp_path, "--version"))
    assert (result.exit_code, result.output.split()[0]) == (0, "splat,")
    ((name, text),) = worker.said
    assert name == "job"
    assert text.startswith("runs on ")
    assert worker.address in text
    assert dask_worker.num_running("topic") == 0


def test_other_version_is_refused(worker, tmp_path):
    with pytest.raises(UsageError, match=r"versions differ: splat 0\.0 here, .*install the same"):
        run_on_worker(job(tmp_path, "--version"), "cpu", "0.0", "topic")


@pytest.mark.parametrize("missing", ["log", "scene"])
def test_invisible_folder_is_told(worker, tmp_path, missing):
    one = job(tmp_path, "--version", inputs=(Path("scene"),))
    (tmp_path / "scene").mkdir()
    (tmp_path / "scene").rmdir() if missing == "scene" else (tmp_path / "log").unlink()
    with pytest.raises(UsageError, match=f"{missing} is not visible on .*: use a folder that all machines"):
        run(one)


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
    assert "to be continued elsewhere" in worker.said[-1][1]


def test_rank_that_cannot_reach_rank_0_tells_so(worker, tmp_path):
    with listening("127.0.0.1") as server:
        address = server.getsockname()[:2]
    work = RankTask(job(tmp_path, "--version"), 2, "cpu", __version__, "topic", b"key")
    message = r"\(tcp://somewhere:1\) cannot reach rank 0 at 127.0.0.1, port \d+ \(Connection refused\): workers must"
    with pytest.raises(SplatError, match=message):
        follow(work, 1, address, [])
    assert dask_worker.num_running("topic") == 0


def test_leading_rank_that_is_dropped_waits_no_more(worker, tmp_path):
    work = RankTask(job(tmp_path, "--version"), 2, "cpu", __version__, "topic", b"key")
    worker.address = "tcp://127.0.0.1:1"
    worker.log_event = lambda topic, message: worker.said.append(message) or worker.state.tasks.clear()
    with pytest.raises(Reschedule):
        lead(work)
    ((kind, rank, address, paths),) = worker.said
    assert (kind, rank, address[0], len(paths)) == ("listens", 0, "127.0.0.1", 5)


def test_a_device_has_one_job_at_a_time(worker, monkeypatch):
    environments = [{"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "1"}]
    monkeypatch.setattr(dask_worker, "device_environments", lambda device: environments)
    free = lambda must_end=lambda: False: dask_worker.free_device("cuda", must_end)  # noqa: E731
    with free() as first, free() as second:
        assert sorted([first["CUDA_VISIBLE_DEVICES"], second["CUDA_VISIBLE_DEVICES"]]) == ["0", "1"]
        with pytest.raises(Reschedule), free(lambda: True):
            pass
    with free() as third:
        assert third in environments


class FakeFuture:
    def __init__(self, error):
        self._error = error

    def add_done_callback(self, function):
        function(self)

    def done(self):
        return True

    def result(self):
        raise self._error


def _results(tmp_path, error):
    """Results of an engine whose only job ends with an exception."""
    client = SimpleNamespace(
        status="running",
        subscribe_topic=lambda *_: None,
        submit=lambda *_, **__: FakeFuture(error),
        nthreads=dict,
    )
    engine = DaskEngine(client, "cpu", print, lambda: None)
    engine.submit(job(tmp_path, "--version"))
    results = list(engine.results())
    engine.close()
    return results


def test_lost_workers_are_a_failure_of_the_job(tmp_path):
    (result,) = _results(tmp_path, KilledWorker("key", None, 3))
    assert result.json_output() == {"error": "4 workers were lost while they ran it, see log", "exit_code": 1}


def test_worker_without_the_program_is_told(tmp_path):
    with pytest.raises(UsageError, match=r"a worker lacks splat .*\(host: no module\): install it on all machines"):
        _results(tmp_path, ImportError("host: no module"))


def test_lost_scheduler_is_told(tmp_path):
    with pytest.raises(SplatError, match="the connection to the Dask scheduler is lost; run the same command again"):
        _results(tmp_path, CancelledError())


class RunningFuture:
    """A task that runs until `end`."""

    def add_done_callback(self, function):
        self._function = function

    def end(self):
        self._function(self)

    def done(self):
        return False

    def result(self):
        return "ended"

    def release(self):
        self.is_released = True


class FakeCluster:
    """A client of two workers of one thread each. submitted: names of the tasks; running: their futures."""

    status = "running"

    def __init__(self):
        self.submitted, self.running, self.futures = [], [], []

    def subscribe_topic(self, *_):
        pass

    def nthreads(self):
        return {"first": 1, "second": 1}

    def submit(self, *_, key, **__):
        self.submitted.append(key[0])
        self.running.append(RunningFuture())
        self.futures.append(self.running[-1])
        return self.running[-1]


def test_jobs_wait_until_a_worker_is_free(tmp_path):
    cluster, counts = FakeCluster(), []

    def check():
        counts.append(len(cluster.running))
        if cluster.running:
            cluster.running.pop(0).end()

    engine = DaskEngine(cluster, "cpu", print, check)
    for name, priority in [("a", 0), ("b", 1), ("c", 0), ("d", 2), ("e", 1)]:
        engine.submit(dataclasses.replace(job(tmp_path, "--version"), name=name, priority=priority))
    assert list(engine.results()) == ["ended"] * 5
    assert cluster.submitted == ["d", "b", "e", "a", "c"]
    assert max(counts) == 2
    assert all(future.is_released for future in cluster.futures)
