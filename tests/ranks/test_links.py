"""Connections between ranks that were started separately: strangers are rejected, and an end is noticed."""

import os
import socket
import threading
from contextlib import ExitStack, suppress

import pytest

from splat_cli.ranks import links
from splat_cli.ranks.links import LinkedFollowers, Links, accepted, inherited_links, joined, listening
from splat_cli.ranks.protocol import Channel, FailedRankError, RankError
from tests.subprocesses import wait_until

KEY = b"key"


@pytest.fixture
def connected():
    """Links of rank 0, and links of ranks 2 and 1, which arrive in this order."""
    with ExitStack() as stack:
        server = stack.enter_context(listening("127.0.0.1"))
        others = []

        def join():
            for rank in (2, 1):
                others.append(stack.enter_context(joined(server.getsockname()[:2], KEY, rank)))

        thread = threading.Thread(target=join)
        thread.start()
        leading = stack.enter_context(accepted(server, 3, KEY, lambda: None))
        thread.join()
        yield leading, others


def test_messages_reach_their_ranks(connected):
    leading, others = connected
    assert [len(leading.messages), len(leading.heartbeats)] == [2, 2]
    for number, name in zip(leading.messages, b"12", strict=True):
        os.write(number, bytes([name]))
    assert [os.read(other.messages[0], 1) for other in others] == [b"2", b"1"]


def test_strangers_are_left_out(monkeypatch):
    monkeypatch.setattr(links, "_HANDSHAKE", 1)
    with listening("127.0.0.1") as server, ExitStack() as stack:
        address = server.getsockname()[:2]
        silent, other = (stack.enter_context(socket.create_connection(address)) for _ in range(2))
        other.sendall(b"GET / HTTP/1.1\r\n\r\n" * 9)
        refused = []

        def join():
            with pytest.raises(OSError, match="another program answers"), joined(address, b"wrong", 1):
                pass
            refused.append(1)
            stack.enter_context(joined(address, KEY, 1))

        thread = threading.Thread(target=join)
        thread.start()
        with accepted(server, 2, KEY, lambda: None) as found:
            assert [len(found.messages), len(found.heartbeats)] == [1, 1]
        thread.join()
        assert refused
        silent.close()


def test_waiting_for_ranks_can_be_ended():
    with listening("127.0.0.1") as server, pytest.raises(KeyboardInterrupt), accepted(server, 2, KEY, interrupt):
        pass


def interrupt():
    raise KeyboardInterrupt


def test_links_are_inherited(monkeypatch):
    assert inherited_links() is None
    given = Links((3, 4), (5, 6), (7,))
    for name, value in given.environment().items():
        monkeypatch.setenv(name, value)
    assert inherited_links() == given
    assert given.descriptors() == (3, 4, 5, 6, 7)


@pytest.mark.parametrize(
    ("said", "kind", "reason"),
    [
        (b"...", RankError, "is lost"),
        (b"..!no photograph", FailedRankError, "failed: no photograph"),
        (b".?CUDA", RankError, "failed: CUDA"),
    ],
)
def test_lost_rank_is_noticed_and_ends_what_is_sent(connected, said, kind, reason):
    leading, others = connected
    followers = LinkedFollowers(
        Links(*(tuple(map(os.dup, numbers)) for numbers in (leading.messages, leading.heartbeats)))
    )
    channel = Channel(0, 3, followers.connections, followers.check)
    try:
        os.write(others[0].heartbeats[0], said)
        with socket.socket(fileno=os.dup(others[0].heartbeats[0])) as life:
            life.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: _loss(followers))
        assert (type(_loss(followers)), str(_loss(followers))) == (kind, f"rank 2 of 3 {reason}")
        with pytest.raises(kind):
            channel.broadcast(bytes(1 << 24))
    finally:
        followers.close()
    assert os.read(others[1].messages[0], 1) == b""  # asks rank 1 to end


def _loss(followers):
    with suppress(RankError):
        followers.check()
        return None
    try:
        followers.check()
    except RankError as error:
        return error
