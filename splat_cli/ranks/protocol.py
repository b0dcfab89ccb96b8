"""Interface of communication between ranks, the share of the splats that each holds, and messages from rank 0.

Rank 0 leads: it runs the session.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Protocol

import numpy as np

from splat_cli.device import Backend, DeviceArray, ceil_div
from splat_cli.errors import OutOfMemory, SplatError

RANK_BLOCK = 4096  # splats, as in cuda_src/common.cuh

# Mirrors `struct Share` in cuda_src/common.cuh.
SHARE_DTYPE = np.dtype([("rank", np.int32), ("num_ranks", np.int32)])


@dataclass(frozen=True)
class Share:
    """The splats of rank `rank` of `num_ranks`, the only ones in its planes.

    struct: the argument of a kernel.
    """

    rank: int = 0
    num_ranks: int = 1
    struct: np.ndarray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        struct = np.array((self.rank, self.num_ranks), SHARE_DTYPE)
        object.__setattr__(self, "struct", struct)  # the dataclass is frozen

    def columns(self, capacity: int) -> int:
        """Columns of each share of `capacity` splats; the same for all ranks."""
        return capacity if self.num_ranks == 1 else ceil_div(capacity, RANK_BLOCK * self.num_ranks) * RANK_BLOCK

    def count(self, num: int) -> int:
        """Number of splats in this share, of `num` in total."""
        if self.num_ranks == 1:
            return num
        rounds, rest = divmod(num, RANK_BLOCK * self.num_ranks)
        return rounds * RANK_BLOCK + min(max(rest - self.rank * RANK_BLOCK, 0), RANK_BLOCK)


WHOLE = Share()
"""The share of a single process."""


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


OUT_OF_MEMORY_ADVICE = "use --max-splats or a larger --downscale"


class SharedMemoryError(MemoryError):
    """Memory has run out on at least one rank; raised on all of them, at the same point."""


def numbers_of_all(ranks: Ranks, backend: Backend, number: int) -> np.ndarray:
    """The numbers of all ranks, int64 [ranks]; all of them call this at the same point."""
    sent, received = (backend.upload(np.full((ranks.size, 1), number, np.int64)) for _ in range(2))
    ranks.exchange([(sent, received)])
    return backend.download(received)[:, 0]


@contextmanager
def all_or_none(ranks: Ranks, backend: Backend) -> Iterator[None]:
    """A block that all ranks run. If memory runs out on one of them, all raise SharedMemoryError after the block.

    Transfers within the block must not raise a MemoryError on only one rank (see fatal_out_of_memory).
    """
    fits = True
    try:
        yield
    except SharedMemoryError:
        raise
    except MemoryError:
        fits = False  # the memory of the block is freed with the exception
    without = np.flatnonzero(numbers_of_all(ranks, backend, fits) == 0)
    if len(without):
        raise SharedMemoryError(f"GPU {without[0]} of {ranks.size} is out of memory")


@contextmanager
def fatal_out_of_memory(ranks: Ranks) -> Iterator[None]:
    """Turn a MemoryError on only this rank into OutOfMemory, which ends the run, because the others wait for it."""
    try:
        yield
    except SharedMemoryError:
        raise
    except MemoryError:
        raise OutOfMemory(f"GPU {ranks.rank} of {ranks.size} is out of memory: {OUT_OF_MEMORY_ADVICE}") from None


_POLL = 0.5  # seconds between two checks for lost ranks
_NUM_POLLS = 40


class Channel:
    """The part of Ranks that all devices share.

    connections: on rank 0, to ranks 1, 2, ...; on other ranks, to rank 0 only.
    """

    def __init__(
        self, rank: int, size: int, connections: Sequence[Connection], check: Callable[[], None] = lambda: None
    ) -> None:
        """check: see Ranks.check."""
        self.rank, self.size, self._connections, self.check = rank, size, connections, check

    def broadcast(self, *message: Any) -> None:
        """See Ranks.broadcast."""
        for connection in self._connections:
            self._attempt(functools.partial(connection.send, message))

    def next_message(self) -> tuple[Any, ...]:
        """See Ranks.next_message."""
        return self._attempt(self._connections[0].recv)

    def connection(self, rank: int) -> Connection:
        """The connection to `rank`; ranks other than 0 have only one, to rank 0."""
        return self._connections[rank - 1 if self.rank == 0 else 0]

    def receive_bytes(self, rank: int) -> bytes:
        """The next message from `rank`, as bytes; RankError if a rank is lost meanwhile."""
        connection = self.connection(rank)
        while not self._attempt(lambda: connection.poll(_POLL)):
            self.check()
        return self._attempt(connection.recv_bytes)

    def send_bytes(self, content: Any, rank: int) -> None:
        """Send bytes to `rank`, which calls `receive_bytes`."""
        self._attempt(lambda: self.connection(rank).send_bytes(content))

    def close(self) -> None:
        """See Ranks.close."""
        for connection in self._connections:
            connection.close()

    def _attempt(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except (OSError, EOFError) as error:
            self.wait_for_loss()
            raise RankError("a rank has ended") from error

    def wait_for_loss(self) -> None:
        """After a failure that a lost rank may have caused: RankError once its number and the reason are known."""
        for _ in range(_NUM_POLLS if self.rank == 0 else 0):
            self.check()
            time.sleep(_POLL / 10)
