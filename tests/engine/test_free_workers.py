"""Which workers run the ranks of a run, and what is said where there are too few."""

from types import SimpleNamespace

import pytest

pytest.importorskip("distributed", reason="clusters need the extra `cluster`")

from splat_cli.engine import free_workers
from splat_cli.engine.free_workers import FreeWorkers, WorkerInfo, chosen_workers, describe_worker, slots
from splat_cli.errors import UsageError
from tests.engine.test_dask_worker import job

GPUS = {
    "a": WorkerInfo("one", ("0",), ""),
    "b": WorkerInfo("two", ("0", "1"), ""),
    "c": WorkerInfo("two", ("2",), ""),
}
CPUS = {name: WorkerInfo(host, (), "no driver") for name, host in (("a", "one"), ("b", "two"), ("c", "two"))}


def _chosen(infos, size, device, threads=2, busy=None):
    return chosen_workers(infos, slots(infos, dict.fromkeys(infos, threads), device, busy), size, device)


@pytest.mark.parametrize(("infos", "size", "device", "expected"), [
    (GPUS, 2, "cuda", ["b", "b"]), (GPUS, 3, "cuda", ["b", "b", "c"]), (GPUS, 4, "cuda", ["b", "b", "c", "a"]),
    (GPUS, 5, "cuda", None), (CPUS, 2, "cpu", ["b", "c"]), (CPUS, 3, "cpu", None), (CPUS, 1, "cuda", None),
], ids=str)  # fmt: skip
def test_ranks_are_close_to_each_other(infos, size, device, expected):
    assert _chosen(infos, size, device) == expected


def test_workers_that_are_busy_are_left_out():
    assert _chosen(GPUS, 2, "cuda", busy={"b": 1}) == ["b", "c"]
    assert _chosen(GPUS, 2, "cuda", threads=1) == ["b", "c"]
    assert _chosen(CPUS, 2, "cpu", busy={"c": 1}) is None


def test_a_gpu_of_two_workers_is_used_once():
    same = {name: WorkerInfo("one", ("0", "1"), "") for name in "ab"}
    assert _chosen(same, 2, "cuda", threads=1) is None
    assert _chosen(same, 2, "cuda") == ["a", "a"]


def _client(infos, busy):
    """As much of a client as FreeWorkers uses. busy: worker -> number of its tasks."""
    return SimpleNamespace(
        nthreads=lambda: dict.fromkeys(infos, 1),
        processing=lambda: {worker: [None] * num for worker, num in busy().items()},
        run=lambda *_, **__: infos,
    )  # fmt: skip


def _wait(monkeypatch, infos, size, device="auto", can_grow=False, **changes):
    """FreeWorkers.wait for a cluster of these workers."""
    client = _client({**infos, **changes}, dict)
    monkeypatch.setattr(free_workers, "remote_call", lambda *_: (None, b""))
    sizes = [size] if isinstance(size, int) else size
    return FreeWorkers(client, device, can_grow, pytest.fail, lambda: None).wait(None, sizes)


def test_free_workers_are_found(monkeypatch):
    assert _wait(monkeypatch, GPUS, 2) == (["b", "c"], "cuda")
    assert _wait(monkeypatch, CPUS, 2) == (["b", "c"], "cpu")


@pytest.mark.parametrize(("infos", "sizes", "num"), [(CPUS, [4, 2, 1], 2), (CPUS, [2, 1], 2), (GPUS, [8, 4, 3, 1], 3)])
def test_the_largest_possible_number_is_chosen(monkeypatch, infos, sizes, num):
    assert len(_wait(monkeypatch, infos, sizes)[0]) == num


@pytest.mark.parametrize(("busy", "expected"), [({}, 2), ({"b": 1}, None), ({"a": 1}, 2)], ids=str)
def test_busy_workers_are_not_waited_for(monkeypatch, busy, expected):
    monkeypatch.setattr(free_workers, "remote_call", lambda *_: (None, b""))
    found = FreeWorkers(_client(CPUS, lambda: busy), "auto", False, pytest.fail, lambda: None)
    assert found.most(None, [2, 4]) == expected


def test_workers_are_waited_for_before_fewer_are_chosen(monkeypatch):
    times = iter([0.0, *range(100)])
    monkeypatch.setattr(free_workers, "time", SimpleNamespace(monotonic=lambda: next(times), sleep=lambda _: None))
    monkeypatch.setattr(free_workers, "_PATIENCE", 10.0)
    client, said = _client(GPUS, lambda: {"b": 1} if next(times) < 20 else {}), []
    workers, _ = FreeWorkers(client, "cuda", True, said.append, lambda: None).wait(None, [8, 4, 3])
    assert next(times) > 20  # as many as there are were busy until then
    assert len(workers) == 3
    assert said == ["Waiting for 8 free GPUs of the cluster"]


@pytest.mark.parametrize(("infos", "size", "device", "can_grow", "message"), [
    (CPUS, 3, "auto", True, "--gpus 3 on the CPU: processes share memory, but no host has 3 workers"),
    (CPUS, 4, "cpu", False, "--gpus 4: too few workers in the cluster: 3"),
    (GPUS, 4, "auto", False, "--gpus 4: too few GPUs in the cluster: 3"),
    (CPUS, 1, "cuda", True, r"--device cuda: no worker has a GPU \(no driver\)"),
], ids=str)  # fmt: skip
def test_too_few_workers_are_told(monkeypatch, infos, size, device, can_grow, message):
    with pytest.raises(UsageError, match=message):
        _wait(monkeypatch, infos, size, device, can_grow)


def test_workers_that_cannot_run_the_job_are_told(monkeypatch):
    with pytest.raises(UsageError, match=r"a worker lacks splat .*\(host: no module\)"):
        _wait(monkeypatch, CPUS, 1, a=ImportError("host: no module"))
    with pytest.raises(UsageError, match="versions differ"):
        _wait(monkeypatch, CPUS, 1, a=UsageError("versions differ"))


def test_processes_of_one_host_share_memory(tmp_path):
    infos = [describe_worker(job(tmp_path), free_workers.__version__) for _ in range(2)]
    assert infos[0] == infos[1]
    assert infos[0].host
