"""Jobs on the workers of a Dask cluster: their order, and failures of jobs, workers and connections."""

import dataclasses
import signal
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="clusters need the extra `cluster`")
import distributed

from splat_cli.engine import clusters, dask_engine
from splat_cli.engine.dask_engine import DaskEngine
from splat_cli.engine.job import Job
from splat_cli.engine.rank_group import RankGroup
from splat_cli.errors import SplatError, UsageError
from tests.engine.dask_cluster import LEFT_OPEN, dask_cluster
from tests.engine.test_local import order_of_jobs, training_job
from tests.subprocesses import newest_checkpoint, wait_until

pytestmark = pytest.mark.filterwarnings(LEFT_OPEN)
BREAKS = """
import errno
from splat_cli.engine import dask_worker

def run_job(*arguments):
    raise OSError(errno.ENOSPC, "No space left on device", "/tmp")

dask_worker.run_job = run_job
"""


@pytest.fixture(scope="module")
def one_worker():
    with clusters._local_cluster(1, "cpu") as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def two_workers():
    with clusters._local_cluster(2, "cpu") as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def connect():
    """Connects a client to a scheduler; it is closed at the end of the test."""
    clients = []

    def connect(address):
        clients.append(distributed.Client(address, set_as_default=False))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


def _quick(folder, name, **changes):
    """A job that takes half a second, with its own log."""
    return dataclasses.replace(Job(name, ("--version",), folder, Path(f"{name}.log")), **changes)


def test_jobs_of_higher_priority_begin_first(one_worker, connect, tmp_path):
    engine = DaskEngine(connect(one_worker), "cpu", lambda: None, print)
    assert order_of_jobs(engine, tmp_path) == ["1", "3", "4", "0", "2"]


def test_jobs_that_fail_on_all_workers_do_not_stop_others(two_workers, connect, tmp_path):
    """The logs of these jobs are folders. The workers do not count as damaged."""
    engine = DaskEngine(connect(two_workers), "cpu", lambda: None, print)
    bad, good = [f"bad-{i}" for i in range(3)], [f"good-{i}" for i in range(8)]
    for name in bad:
        (tmp_path / f"{name}.log").mkdir()
    for name in bad + good:
        engine.submit(_quick(tmp_path, name))
    results = {result.job.name: result for result in engine.results()}
    engine.close()
    assert {name: results[name].exit_code for name in good} == dict.fromkeys(good, 0)
    assert len({results[name].place for name in good}) == 2
    for name in bad:
        assert "cannot run it" in results[name].json_output()["error"]
        assert f"{name}.log: Is a directory" in results[name].json_output()["error"]


def test_a_log_that_this_machine_cannot_write_fails_alone(one_worker, connect, tmp_path):
    engine = DaskEngine(connect(one_worker), "cpu", lambda: None, print)
    (tmp_path / "file").touch()
    for one in (_quick(tmp_path, "bad", log=Path("file/log")), _quick(tmp_path, "good")):
        engine.submit(one)
    assert {result.job.name: result.exit_code for result in engine.results()} == {"bad": 1, "good": 0}
    engine.close()


def test_a_worker_that_fails_twice_gets_no_more_jobs(connect, tmp_path):
    (tmp_path / "breaks.py").write_text(BREAKS)
    said = []
    with dask_cluster(tmp_path / "cluster", 1) as cluster:
        cluster.add_worker("--preload", tmp_path / "breaks.py")
        engine = DaskEngine(connect(cluster.address), "cpu", lambda: None, said.append)
        for number in range(6):
            engine.submit(_quick(tmp_path, f"job-{number}"))
        results = list(engine.results())
        engine.close()
    assert [result.exit_code for result in results] == [0] * 6
    assert len({result.place for result in results}) == 1
    failures = [line for line in said if "cannot run it (/tmp: No space left on device)" in line]
    assert [line.endswith("; this worker gets no more jobs") for line in failures] == [False, True]


def test_jobs_fail_where_no_worker_is_left(connect, tmp_path):
    (tmp_path / "breaks.py").write_text(BREAKS)
    with dask_cluster(tmp_path / "cluster", 0) as cluster:
        cluster.add_worker("--preload", tmp_path / "breaks.py")
        engine = DaskEngine(connect(cluster.address), "cpu", lambda: None, print)
        for number in range(3):
            engine.submit(_quick(tmp_path, f"job-{number}"))
        errors = [result.json_output()["error"] for result in engine.results()]
        engine.close()
    assert [error.startswith("no worker is left: ") for error in errors] == [False, False, True]
    assert all("No space left on device" in error for error in errors)


def test_ranks_get_their_turn_beside_a_batch(two_workers, connect, tmp_path):
    """Two workers are free at the same time only if the batch starts no job meanwhile."""
    ended = []
    engine = DaskEngine(connect(two_workers), "cpu", lambda: None, lambda line: None)
    group = RankGroup(connect(two_workers), "cpu", False, lambda line: None, lambda: None)
    for number in range(20):
        engine.submit(
            _quick(tmp_path, f"job-{number}", arguments=("info", "nothing") if number % 2 else ("--version",))
        )

    def wait():
        wait_until(lambda: ended)
        group._wait([tmp_path], [2])
        group._turn.give_back()
        ended.append("ranks")

    (tmp_path / "log").touch()
    thread = threading.Thread(target=wait)
    thread.start()
    for result in engine.results():
        ended.append(result.job.name)
    engine.close()
    thread.join()
    assert ended.index("ranks") <= 6, ended


def test_a_stopped_worker_does_not_delay_the_end(connect, scene, tmp_path):
    """The worker stops answering, as after SIGSTOP. When it continues, its job saves and ends."""
    (tmp_path / "log").touch()
    with dask_cluster(tmp_path / "cluster", 1) as cluster:

        def interrupt():
            if newest_checkpoint(tmp_path / "run"):
                cluster.workers[0].send_signal(signal.SIGSTOP)
                raise KeyboardInterrupt

        engine = DaskEngine(connect(cluster.address), "cpu", interrupt, print)
        engine.submit(training_job(tmp_path, scene))
        with pytest.raises(KeyboardInterrupt):
            list(engine.results())
        start = time.monotonic()
        engine.close()
        assert time.monotonic() - start < 60
        cluster.workers[0].send_signal(signal.SIGCONT)
        wait_until(lambda: "Interrupted after step" in (tmp_path / "log").read_text())


def test_a_worker_without_the_program_is_reported(connect, tmp_path):
    """The worker finds another package of this name first."""
    (tmp_path / "splat_cli.py").touch()
    with dask_cluster(tmp_path / "cluster", 0) as cluster:
        cluster.add_worker(PYTHONPATH=tmp_path)
        engine = DaskEngine(connect(cluster.address), "cpu", lambda: None, print)
        engine.submit(_quick(tmp_path, "job"))
        with pytest.raises(UsageError, match="a worker lacks splat .*: install it on all machines"):
            list(engine.results())


def test_a_job_is_taken_back_from_a_worker_without_the_program(one_worker, connect, tmp_path, monkeypatch):
    """Dask may move a job to a worker that has just joined."""
    calls, remote_call = [], dask_engine.remote_call

    def lacks_program(work):
        raise ImportError("no module")

    def first_lacks_program(*arguments):
        calls.append(arguments)
        return (lacks_program, b"") if len(calls) == 1 else remote_call(*arguments)

    monkeypatch.setattr(dask_engine, "remote_call", first_lacks_program)
    engine = DaskEngine(connect(one_worker), "cpu", lambda: None, print)
    engine.submit(_quick(tmp_path, "job"))
    assert [result.exit_code for result in engine.results()] == [0]
    engine.close()


def test_a_lost_scheduler_is_reported(connect, scene, tmp_path):
    with dask_cluster(tmp_path / "cluster", 1) as cluster:
        engine = DaskEngine(connect(cluster.address), "cpu", lambda: None, print)
        (tmp_path / "log").touch()
        engine.submit(training_job(tmp_path, scene))

        def kill():
            wait_until(lambda: newest_checkpoint(tmp_path / "run"))
            cluster.scheduler.kill()

        threading.Thread(target=kill).start()
        with pytest.raises(SplatError, match="connection to the Dask scheduler is lost; run the same command again"):
            list(engine.results())
        engine.close()
