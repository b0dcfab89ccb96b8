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
    """The part of Ranks that is the same on all devices.

    connections: of rank 0 to ranks 1, 2, ...; of another rank to rank 0 only.
    """

    def __init__(
        self, rank: int, size: int, connections: Sequence[Connection], check: Callable[[], None] = lambda: None
    ) -> None:
        """check: see Ranks.check."""
        self.rank, self.size, self._connections, self.check = rank, size, connections, check

    def tell(self, *message: Any) -> None:
        """See Ranks.tell."""
        for connection in self._connections:
            self._attempt(functools.partial(connection.send, message))

    def listen(self) -> tuple[Any, ...]:
        """See Ranks.listen."""
        return self._attempt(self._connections[0].recv)

    def connection(self, rank: int) -> Connection:
        """That to `rank`, as far as there is one."""
        return self._connections[rank - 1 if self.rank == 0 else 0]

    def receive_bytes(self, rank: int) -> bytes:
        """The next message of bytes of a rank; RankError where one is lost meanwhile."""
        connection = self.connection(rank)
        while not self._attempt(lambda: connection.poll(_POLL)):
            self.check()
        return self._attempt(connection.recv_bytes)

    def send_bytes(self, content: Any, rank: int) -> None:
        """Send bytes to a rank that receives them."""
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
        """After a failure that a lost rank may have caused: RankError as soon as it is known which one, and why."""
        for _ in range(_NUM_POLLS if self.rank == 0 else 0):
            self.check()
            time.sleep(_POLL / 10)
