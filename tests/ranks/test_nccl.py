"""NcclRanks with a fake NCCL that records calls, transferred data and streams."""

import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from splat_cli.errors import DeviceError
from splat_cli.ranks import nccl
from splat_cli.ranks.protocol import Channel

cuda = pytest.importorskip("cupy").cuda
FIRST = nccl._FIRST_BYTES


class _Array:
    """Bytes at an address, indexed by rank first."""

    def __init__(self, address: int, shape: tuple[int, ...]) -> None:
        self.data, self.shape, self.nbytes = SimpleNamespace(ptr=address), shape, int(np.prod(shape))

    def __getitem__(self, rank: int) -> "_Array":
        size = self.nbytes // self.shape[0]
        return _Array(self.data.ptr + rank * size, self.shape[1:])


class _Stream:
    def __init__(self, calls: list[tuple[Any, ...]], ptr: str) -> None:
        self._calls, self.ptr = calls, ptr

    def wait_event(self, event: object) -> None:
        self._calls.append(("wait", self.ptr))

    def synchronize(self) -> None:
        pass

    def __enter__(self) -> None:
        self._calls.append(("enter", self.ptr))

    def __exit__(self, *exc: object) -> None:
        self._calls.append(("leave", self.ptr))


def _ranks(monkeypatch: pytest.MonkeyPatch, connect: Any = lambda *arguments: None) -> tuple[nccl.NcclRanks, list]:
    """Rank 1 of 3, and the calls that it makes."""
    calls = list[tuple[Any, ...]]()

    class Communicator:
        def __init__(self, *arguments: Any) -> None:
            connect(*arguments)

        def send(self, *arguments: Any) -> None:
            calls.append(("send", *arguments))

        def recv(self, *arguments: Any) -> None:
            calls.append(("recv", *arguments))

        def abort(self) -> None:
            calls.append(("abort",))

    stand_in = SimpleNamespace(
        NcclCommunicator=Communicator,
        NCCL_UINT8=1,
        NcclError=type("NcclError", (RuntimeError,), {}),
        groupStart=lambda: calls.append(("start",)),
        groupEnd=lambda: calls.append(("end",)),
    )
    event = SimpleNamespace(record=lambda stream: calls.append(("record", stream.ptr)), ptr=0)
    for name, value in {
        "nccl": stand_in, "Device": lambda: SimpleNamespace(use=lambda: None), "Event": lambda **options: event,
        "Stream": lambda **options: _Stream(calls, "beside"), "Memory": lambda size: SimpleNamespace(ptr=0),
    }.items():  # fmt: skip
        monkeypatch.setattr(cuda, name, value, raising=name != "nccl")
    monkeypatch.setattr(nccl, "why_no_nccl", lambda: "")
    channel = Channel(1, 3, [])
    monkeypatch.setattr(channel, "next_message", lambda: ("id",))
    return nccl.NcclRanks(channel, _Stream(calls, "main")), calls


def test_a_missing_library_is_a_reason_alone() -> None:
    """CuPy's warning of six lines, once per process when NCCL is missing, is not shown."""
    command = [sys.executable, "-c", "from splat_cli.ranks.nccl import why_no_nccl; why_no_nccl()"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stderr == ""


def test_ranks_connect_before_the_first_transfer(monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    ranks, calls = _ranks(monkeypatch, lambda *arguments: given.append(arguments))
    ranks._connecting.join()
    assert given == [(3, "id", 1)]
    sends = [("send", 0, FIRST, 1, 0, "beside"), ("send", 2 * FIRST, FIRST, 1, 2, "beside")]
    receives = [("recv", 3 * FIRST, FIRST, 1, 0, "beside"), ("recv", 5 * FIRST, FIRST, 1, 2, "beside")]
    assert calls == [("start",), *sends, *receives, ("end",)]


def test_own_parts_are_not_transferred(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks, calls = _ranks(monkeypatch)
    ranks._connecting.join()
    calls.clear()
    ranks.exchange([(_Array(1000, (3, 8)), _Array(2000, (3, 8)))])
    sends = [("send", 1000, 8, 1, 0, "main"), ("send", 1016, 8, 1, 2, "main")]
    receives = [("recv", 2000, 8, 1, 0, "main"), ("recv", 2016, 8, 1, 2, "main")]
    assert calls == [("start",), *sends, *receives, ("end",)]


def test_exchange_beside_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exchange begins after earlier work, and work after `end_exchanges` waits for it."""
    ranks, calls = _ranks(monkeypatch)
    ranks._connecting.join()
    calls.clear()
    ranks.begin_exchange([(_Array(0, (3, 8)), _Array(100, (3, 8)))])
    ranks.end_exchanges()
    assert calls[:3] == [("record", "main"), ("wait", "beside"), ("start",)]
    assert {call[-1] for call in calls[3:-3]} == {"beside"}
    assert calls[-3:] == [("end",), ("record", "beside"), ("wait", "main")]


def test_transfers_beside_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transfers wait for the last exchange, not for work queued after it."""
    ranks, calls = _ranks(monkeypatch)
    ranks._connecting.join()
    calls.clear()
    with ranks.exchange_stream():
        ranks.send(_Array(1000, (8,)), 0)
    ranks.end_exchanges()
    ranks.receive(_Array(1000, (8,)), 0)
    assert calls == [
        ("enter", "beside"),
        ("start",),
        ("send", 1000, 8, 1, 0, "beside"),
        ("end",),
        ("record", "beside"),
        ("leave", "beside"),
        ("wait", "main"),
        ("start",),
        ("recv", 1000, 8, 1, 0, "main"),
        ("end",),
    ]


def test_failed_connection_is_reported_by_the_first_transfer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        raise cuda.nccl.NcclError("no such device")

    ranks, _ = _ranks(monkeypatch, fail)
    with pytest.raises(DeviceError, match="NCCL failed: no such device"):
        ranks.send(_Array(0, (8,)), 0)


def test_communicator_that_is_made_after_an_abort_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    made = threading.Event()
    ranks, calls = _ranks(monkeypatch, lambda *arguments: made.wait())
    ranks.abort()
    made.set()
    ranks._connecting.join()
    assert calls[-1] == ("abort",)
