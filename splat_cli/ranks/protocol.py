"""What ranks do together. Rank 0 leads: it runs the session and tells the others what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from splat_cli.errors import SplatError

Pair = tuple[Any, Any]


class RankError(SplatError):
    """A rank has ended or stopped: training cannot go on without it. A restart may help."""

    exit_code = 75  # EX_TEMPFAIL of sysexits.h


class FailedRankError(RankError):
    """A rank has reported an error that would occur again after a restart."""

    exit_code = 1


class Ranks(Protocol):
    """One process of `size`. Arrays are the backend's; what is sent may be overwritten by work that is queued later."""

    rank: int
    size: int

    def exchange(self, pairs: Sequence[Pair]) -> None:
        """All-to-all, in stream order: of each (sent, received) [size, ...], part r goes to and comes from rank r.

        Shapes and dtypes are the same on all ranks. A rank's own part stays as it is.
        """

    def begin_exchange(self, pairs: Sequence[Pair]) -> None:
        """As `exchange`, after what is queued, but beside what is queued from now on, until `end_exchanges`."""

    def beside(self) -> AbstractContextManager[object]:
        """What a block queues follows the last `begin_exchange`, beside all else, until `end_exchanges`."""

    def end_exchanges(self) -> None:
        """What is queued from now on waits for the end of all exchanges."""

    def send(self, array: Any, rank: int) -> None:
        """Send an array to a rank, which calls `receive`; in stream order."""

    def receive(self, array: Any, rank: int) -> None:
        """Fill an array with what a rank sends; in stream order."""

    def tell(self, *message: Any) -> None:
        """Rank 0: send Python objects to all others."""

    def listen(self) -> tuple[Any, ...]:
        """Others: wait for the next message of rank 0. RankError where it has ended."""

    def check(self) -> None:
        """RankError where a rank is lost."""

    def close(self) -> None:
        """Leave: rank 0 ends the others."""


class Alone:
    """The only rank."""

    rank, size = 0, 1

    def exchange(self, pairs: Sequence[Pair]) -> None:
        """See Ranks.exchange."""

    begin_exchange = exchange

    def beside(self) -> AbstractContextManager[object]:
        """See Ranks.beside."""
        return nullcontext()

    def end_exchanges(self) -> None:
        """See Ranks.end_exchanges."""

    def send(self, array: Any, rank: int) -> None:
        """See Ranks.send."""
        raise AssertionError("there is no other rank")

    receive = send

    def tell(self, *message: Any) -> None:
        """See Ranks.tell."""

    def listen(self) -> tuple[Any, ...]:
        """See Ranks.listen."""
        raise AssertionError("there is no other rank")

    def check(self) -> None:
        """See Ranks.check."""

    def close(self) -> None:
        """See Ranks.close."""
