"""Messages between rank 0 and the others: pickled objects through sockets of one host."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

from splat_cli.ranks.protocol import RankError

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
