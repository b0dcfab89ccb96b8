"""Communication between ranks. Rank 0 leads: it runs the session and sends commands to the others."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from splat_cli.device import DeviceArray
from splat_cli.errors import SplatError

Pair = tuple[DeviceArray, DeviceArray]


class RankError(SplatError):
    """A rank has ended or hangs, and training cannot continue without it. A restart may help."""

    exit_code = 75  # EX_TEMPFAIL of sysexits.h


class FailedRankError(RankError):
    """A rank has reported an error that a restart would not fix."""

    exit_code = 1


class Ranks(Protocol):
    """One of `size` processes that train together. Arrays are the backend's. Work queued after a transfer may overwrite
    the sent data."""

    rank: int
    size: int

    def exchange(self, pairs: Sequence[Pair]) -> None:
        """All-to-all, in stream order. pairs: (sent, received) [size, ...]; part r goes to or comes from rank r.

        Shapes and dtypes are the same on all ranks. A rank's own part does not change.
        """

    def begin_exchange(self, pairs: Sequence[Pair]) -> None:
        """Like `exchange`, after the work queued so far, and concurrent with later work until `end_exchanges`."""

    def exchange_stream(self) -> AbstractContextManager[object]:
        """Queue a block's work after the last `begin_exchange`, concurrent with other work until `end_exchanges`."""

    def end_exchanges(self) -> None:
        """Make later work wait for the end of all exchanges."""

    def send(self, array: DeviceArray, rank: int) -> None:
        """Send an array to `rank`, which calls `receive`; in stream order."""

    def receive(self, array: DeviceArray, rank: int) -> None:
        """Fill an array with the array that `rank` sends, of the same shape and dtype; in stream order."""

    def broadcast(self, *message: Any) -> None:
        """Rank 0: send Python objects to all others."""

    def next_message(self) -> tuple[Any, ...]:
        """Other ranks: wait for the next message of rank 0. RankError if rank 0 has ended."""

    def check(self) -> None:
        """RankError if a rank is lost."""

    def close(self) -> None:
        """Close the connections; rank 0 ends the other processes."""


class SingleRank(Ranks):
    """The only rank of a run on one device."""

    rank, size = 0, 1

    def exchange(self, pairs: Sequence[Pair]) -> None:
        """There is no other rank."""

    begin_exchange = exchange

    def exchange_stream(self) -> AbstractContextManager[object]:
        return nullcontext()

    def end_exchanges(self) -> None:
        """There are no exchanges."""

    def send(self, array: DeviceArray, rank: int) -> None:
        raise AssertionError("there is no other rank")

    receive = send

    def broadcast(self, *message: Any) -> None:
        """There is no other rank."""

    def next_message(self) -> tuple[Any, ...]:
        raise AssertionError("there is no other rank")

    def check(self) -> None:
        """There is no other rank."""

    def close(self) -> None:
        """There are no connections."""
