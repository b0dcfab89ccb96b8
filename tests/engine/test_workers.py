"""Choice of workers for jobs and ranks, and messages if there are too few."""

import re
from types import SimpleNamespace

import pytest

pytest.importorskip("distributed", reason="clusters need the extra `cluster`")

from splat_cli.engine import rank_group
from splat_cli.engine.workers import WorkerInfo, Workers, describe_worker
from splat_cli.errors import UsageError

GPUS = {
    "a": WorkerInfo("one", ("0",), ""),
    "b": WorkerInfo("two", ("0", "1"), ""),
    "c": WorkerInfo("two", ("2",), ""),
}
CPUS = {name: WorkerInfo(host, (), "no driver") for name, host in (("a", "one"), ("b", "two"), ("c", "two"))}


def _chosen(infos, size, kind, threads=2, busy=()):
    workers = _looked(infos, kind, threads)
    return workers.choose({one: num - (one in busy) for one, num in workers.places().items()}, size)


def _looked(infos, kind, threads=1):
    workers = Workers(FakeClient(infos, num_threads=threads), "auto", pytest.fail)
    workers.look([])
    workers.kind = kind
    return workers


@pytest.mark.parametrize(
    ("infos", "size", "device", "expected"),
    [
        (GPUS, 2, "cuda", ["b", "b"]),
        (GPUS, 3, "cuda", ["b", "b", "c"]),
        (GPUS, 4, "cuda", ["b", "b", "c", "a"]),
        (GPUS, 5, "cuda", None),
        (CPUS, 2, "cpu", ["b", "c"]),
        (CPUS, 3, "cpu", None),
        (CPUS, 1, "cuda", None),
    ],
    ids=str,
)
def test_ranks_are_close_to_each_other(infos, size, device, expected):
    assert _chosen(infos, size, device) == expected


def test_workers_that_are_busy_are_left_out():
    assert _chosen(GPUS, 2, "cuda", busy="b") == ["b", "c"]
    assert _chosen(GPUS, 2, "cuda", threads=1) == ["b", "c"]
    assert _chosen(CPUS, 2, "cpu", busy="c") is None


def test_a_gpu_of_two_workers_is_used_once():
    same = {name: WorkerInfo("one", ("0", "1"), "") for name in "ab"}
    assert _chosen(same, 2, "cuda", threads=1) is None
    assert _chosen(same, 2, "cuda") == ["a", "a"]


def test_jobs_of_several_workers_may_share_a_gpu():
    """Workers of `--cluster local:N` share GPUs if N is larger than the number of GPUs."""
    same = {name: WorkerInfo("one", ("0",), "") for name in "ab"}
    assert _looked(same, "cuda").places(shared=True) == {"a": 1, "b": 1}
    assert _looked(same, "cuda").places() == {"a": 1}


class FakeClient:
    """A client of workers that answer with these infos. busy: number of tasks of each."""

    status = "running"

    def __init__(self, infos, busy=dict, num_threads=1):
        self._infos, self._busy, self._num_threads = infos, busy, num_threads

    def nthreads(self):
        return dict.fromkeys(self._infos, self._num_threads)

    def processing(self):
        return {worker: [None] * num for worker, num in self._busy().items()}

    def run(self, *_, workers, **__):
        if isinstance(self._infos[workers[0]], TimeoutError):
            raise self._infos[workers[0]]
        return {workers[0]: self._infos[workers[0]]}


@pytest.fixture
def wait(monkeypatch):
    """Waits for free workers as a group of ranks does. turns: whether it is the group's turn, at each check."""

    def wait(client, sizes, device="auto", can_grow=False, say=pytest.fail, turns=()):
        turns = iter(turns)
        turn = SimpleNamespace(take=lambda: next(turns, True), give_back=lambda: None)
        monkeypatch.setattr(rank_group, "Turn", lambda client: turn)
        group = rank_group.RankGroup(client, device, can_grow, say, lambda: None)
        return group._wait([], sizes)

    return wait


def test_free_workers_are_found(wait):
    assert wait(FakeClient(GPUS), [2]) == ["b", "c"]
    assert wait(FakeClient(CPUS), [2]) == ["b", "c"]


@pytest.mark.parametrize(("infos", "sizes", "num"), [(CPUS, [4, 2, 1], 2), (CPUS, [2, 1], 2), (GPUS, [8, 4, 3, 1], 3)])
def test_the_largest_possible_number_is_chosen(wait, infos, sizes, num):
    assert len(wait(FakeClient(infos), sizes)) == num


def test_no_worker_is_taken_during_the_turn_of_another_command(wait):
    said = []
    assert wait(FakeClient(CPUS), [2], say=said.append, turns=[False, True]) == ["b", "c"]
    assert said == ["Waiting for 2 free workers of the cluster"]


def test_workers_are_waited_for_before_fewer_are_chosen(wait, monkeypatch):
    times = iter([0.0, *range(100)])
    monkeypatch.setattr(rank_group, "time", SimpleNamespace(monotonic=lambda: next(times), sleep=lambda _: None))
    monkeypatch.setattr(rank_group, "_PATIENCE", 10.0)
    client, said = FakeClient(GPUS, lambda: {"b": 1} if next(times) < 20 else {}), []
    assert len(wait(client, [8, 4, 3], "cuda", can_grow=True, say=said.append)) == 3
    assert next(times) > 20  # until then, one worker was busy
    assert said == ["Waiting for 8 free GPUs of the cluster"]


@pytest.mark.parametrize(
    ("infos", "size", "device", "can_grow", "message"),
    [
        (CPUS, 3, "auto", True, "--gpus 3 on the CPU: processes share memory, but no host has 3 workers"),
        (CPUS, 4, "cpu", False, "--gpus 4: too few workers in the cluster: 3"),
        (GPUS, 4, "auto", False, "--gpus 4: too few GPUs in the cluster: 3"),
        (CPUS, 1, "cuda", True, r"--device cuda: no worker has a GPU \(no driver\)"),
    ],
    ids=str,
)
def test_too_few_workers_are_reported(wait, infos, size, device, can_grow, message):
    with pytest.raises(UsageError, match=message):
        wait(FakeClient(infos), [size], device, can_grow)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ImportError("host: no module"), r"a worker lacks splat .*\(host: no module\)"),
        (UsageError("versions differ"), "versions differ"),
        (TimeoutError(), "bad does not answer"),
    ],
    ids=str,
)
def test_a_worker_that_cannot_run_jobs_is_left_out(answer, reason):
    said = []
    workers = Workers(FakeClient({**CPUS, "bad": answer}), "auto", said.append)
    workers.look([])
    workers.look([])
    assert workers.places().keys() == CPUS.keys()
    assert [bool(re.match(f"A worker gets no jobs: {reason}", line)) for line in said] == [True]
    with pytest.raises(UsageError, match=reason):
        Workers(FakeClient({"bad": answer}), "auto", said.append).look([])


@pytest.mark.parametrize(
    ("infos", "device", "kind"),
    [(GPUS, "auto", "cuda"), (GPUS, "cuda", "cuda"), (CPUS, "auto", "cpu"), (GPUS, "cpu", "cpu")],
)
def test_jobs_of_auto_and_cuda_take_gpus_from_one_pool(infos, device, kind):
    """A worker's pool of devices depends on the kind."""
    workers = Workers(FakeClient(infos), device, pytest.fail)
    workers.look([])
    assert workers.kind == kind


def test_a_worker_that_leaves_before_it_answers_is_asked_again():
    client = FakeClient({"a": OSError("lost")})
    workers = Workers(client, "auto", pytest.fail)
    workers.look([])
    assert (workers.is_known(), workers.places()) == (False, {})
    client._infos = CPUS
    workers.look([])
    assert (workers.is_known(), workers.places()) == (True, dict.fromkeys(CPUS, 1))


def test_processes_of_one_host_share_memory(tmp_path):
    infos = [describe_worker([tmp_path]) for _ in range(2)]
    assert infos[0] == infos[1]
    assert infos[0].host
