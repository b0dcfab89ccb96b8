"""TCP connections between ranks that different programs start, as on several hosts; a common key authenticates them.

Rank 0 has two connections with each other rank: for messages (Channel) and for heartbeats (Heartbeat). The programs
that start the processes make the connections, and the processes inherit them.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

from splat_cli.ranks.protocol import RankError
from splat_cli.ranks.watch import Loss, RankWatch

_VARIABLE = "SPLAT_RANKS"  # environment variable
_NUM_LINKS = 2  # for messages, for heartbeats
_HANDSHAKE = 10  # seconds in which a client has to authenticate
_TIMEOUT = 60  # seconds for rank 0 to answer; it may be waiting for other clients
_POLL = 0.1  # seconds


@dataclass(frozen=True)
class Links:
    """Descriptors that rank 0 inherits: sockets to ranks 1, 2, ..., and on the CPU files of shared memory."""

    messages: tuple[int, ...]
    heartbeats: tuple[int, ...]
    files: tuple[int, ...] = ()

    def descriptors(self) -> tuple[int, ...]:
        """All descriptors."""
        return *self.messages, *self.heartbeats, *self.files

    def environment(self) -> dict[str, str]:
        """Environment variable that passes them to the process of rank 0."""
        return {_VARIABLE: json.dumps(asdict(self))}


def inherited_links() -> Links | None:
    """The descriptors that this process has inherited, if any."""
    text = os.environ.get(_VARIABLE)
    return None if text is None else Links(**{name: tuple(found) for name, found in json.loads(text).items()})


class LinkedFollowers(RankWatch):
    """See RankWatch: processes of other ranks, which end when these connections are closed."""

    def __init__(self, links: Links) -> None:
        super().__init__()
        # duplicate descriptors of the same connections, used to close them
        self._sockets = [socket.socket(fileno=os.dup(number)) for number in (*links.messages, *links.heartbeats)]
        self.connections, self._lives = [Connection(number) for number in links.messages], links.heartbeats
        self._watch(links.heartbeats)

    def close(self) -> None:
        super().close()
        for one in self._sockets:
            one.close()
        for number in self._lives:
            os.close(number)

    def _end_all(self) -> None:
        for one in self._sockets:
            with suppress(OSError):  # ended already
                one.shutdown(socket.SHUT_RDWR)

    def _ending(self, rank: int) -> Loss:
        return RankError, "is lost"


def listening(host: str) -> socket.socket:
    """A socket to which other ranks can connect, with a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, 0), family=family)


@contextmanager
def accepted(server: socket.socket, size: int, key: bytes, check: Callable[[], None]) -> Iterator[Links]:
    """Accept connections of ranks 1 to size - 1; closed afterwards. check: called often, may raise."""
    found: dict[tuple[int, int], Connection] = {}
    server.settimeout(_POLL)
    try:
        while len(found) < _NUM_LINKS * (size - 1):
            check()
            with suppress(TimeoutError):
                peer = server.accept()[0]
                with suppress(OSError, EOFError, AuthenticationError):  # the client is not a rank
                    connection = _connection(peer, _HANDSHAKE)
                    deliver_challenge(connection, key)
                    answer_challenge(connection, key)
                    found[connection.recv()] = connection
                    _set_timeout(connection, 0)
        numbers = [tuple(found[rank, link].fileno() for rank in range(1, size)) for link in range(_NUM_LINKS)]
        yield Links(*numbers)
    finally:
        for connection in found.values():
            connection.close()


@contextmanager
def joined(address: tuple[str, int], key: bytes, rank: int) -> Iterator[Links]:
    """Connect a rank to rank 0, which listens at `address`; closed afterwards. OSError."""
    made = list[Connection]()
    try:
        for link in range(_NUM_LINKS):
            connection = _connection(socket.create_connection(address, _TIMEOUT), _TIMEOUT)
            made.append(connection)
            try:
                answer_challenge(connection, key)
                deliver_challenge(connection, key)
            except (EOFError, AuthenticationError) as error:
                raise ConnectionError(f"another program answers ({error})") from None
            connection.send((rank, link))
            _set_timeout(connection, 0)
        yield Links((made[0].fileno(),), (made[1].fileno(),))
    finally:
        for connection in made:
            connection.close()


def _connection(peer: socket.socket, timeout: int) -> Connection:
    """Connection that takes over a connected socket; reading times out after `timeout` seconds."""
    peer.settimeout(None)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection = Connection(peer.detach())
    _set_timeout(connection, timeout)
    return connection


def _set_timeout(connection: Connection, seconds: int) -> None:
    """Set the time limit of a read; 0: none. Uses the descriptor, as Connection bypasses a socket object's timeout."""
    with socket.socket(fileno=os.dup(connection.fileno())) as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", seconds, 0))
