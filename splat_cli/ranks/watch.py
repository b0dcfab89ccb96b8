"""Watch over ranks 1, 2, ... by rank 0: signs of life, last words, and what follows from the loss of one."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection

from splat_cli.child_process import end_with_parent
from splat_cli.interrupt import ENDING_SIGNALS
from splat_cli.ranks.protocol import FailedRankError, RankError

HEARTBEAT = 1.0  # seconds between two signs of life
STOPPED = 60.0  # seconds without one, after which a process counts as lost
_GRACE = 20.0  # seconds after a loss until rank 0 ends at once, if it goes on waiting for a rank
_POLL = 0.1  # seconds between two checks whether it does
_FAILED, _DEVICE_FAILED = b"!", b"?"  # what last words begin with; signs of life are dots

Loss = tuple[type[RankError], str]


class RankWatch:
    """What rank 0 knows of the processes of the other ranks, until `close`. Subclasses start or reach them.

    connections: for messages with each. Called from another thread: on_lost, when the first one has ended or stopped;
    is_waiting, whether the main thread then still waits for a rank, without calling `check`.
    """

    def __init__(self) -> None:
        self.connections = list[Connection]()
        self.on_lost: Callable[[], None] = lambda: None
        self.is_waiting: Callable[[], bool] = lambda: False
        self._closing, self._watchers = threading.Event(), list[threading.Thread]()
        self._loss: Loss | None = None

    def check(self) -> None:
        """RankError where a process has ended or stopped, FailedRankError where a restart would not help."""
        if self._loss:
            kind, reason = self._loss
            raise kind(reason)

    def close(self) -> None:
        """End all processes."""
        self._closing.set()
        self._end_all()
        for watcher in self._watchers:
            watcher.join()
        for connection in self.connections:
            connection.close()

    def _end_all(self) -> None:
        """End the processes, and what rank 0 is sending them; from any thread, more than once."""
        raise NotImplementedError

    def _ending(self, rank: int) -> Loss:
        """How a process has ended that has not told why."""
        raise NotImplementedError

    def _watch(self, lives: Sequence[int]) -> None:
        """Watch descriptors from which signs of life of ranks 1, 2, ... can be read, each in a thread."""
        for rank, life in enumerate(lives, 1):
            arguments = rank, 1 + len(lives), life
            watcher = threading.Thread(target=self._watch_one, args=arguments, name=f"rank {rank}", daemon=True)
            self._watchers.append(watcher)
            watcher.start()

    def _watch_one(self, rank: int, size: int, life: int) -> None:
        said, heard = b"", time.monotonic()
        while not self._closing.is_set():
            if select.select([life], [], [], HEARTBEAT)[0]:
                news = b""
                with suppress(OSError):  # a connection that was reset
                    news = os.read(life, 4096)
                if not news:
                    kind, reason = _told(said) or self._ending(rank)
                    self._lose(kind, f"rank {rank} of {size} {reason}")
                    return
                said, heard = said + news.strip(b"."), time.monotonic()
            elif time.monotonic() - heard > STOPPED:
                self._lose(RankError, f"rank {rank} of {size} has stopped: no sign of life for {STOPPED:.0f} s")
                return

    def _lose(self, kind: type[RankError], reason: str) -> None:
        if self._closing.is_set() or self._loss is not None:
            return
        self._loss = kind, reason
        self._end_all()
        self.on_lost()
        end = time.monotonic() + _GRACE
        while self.is_waiting() and not self._closing.wait(_POLL):
            if time.monotonic() > end:
                print(f"Error: {reason}", file=sys.stderr, flush=True)
                os._exit(kind.exit_code)


def _told(said: bytes) -> Loss | None:
    """What a process has told with `Lifeline.fail`."""
    if not said:
        return None
    kind = RankError if said.startswith(_DEVICE_FAILED) else FailedRankError
    return kind, f"failed: {said[1:].decode(errors='replace')}"


class Lifeline:
    """In a follower: signs of life to rank 0 through standard output, and the end of this process with its parent.

    It also ends where rank 0 no longer receives them. Whatever else is written to standard output goes to standard
    error. Signals that ask for the end are ignored: where a cluster sends them to all processes of a job, rank 0 needs
    the others to save what they have trained.
    """

    def __init__(self) -> None:
        for number in ENDING_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        self._output = os.dup(1)
        os.dup2(2, 1)
        threading.Thread(target=self._beat, daemon=True).start()
        end_with_parent()

    def fail(self, reason: str, of_device: bool = False) -> None:
        """Tell rank 0 why this process ends. of_device: after an error of its device a restart may help."""
        os.write(self._output, (_DEVICE_FAILED if of_device else _FAILED) + reason.encode())

    def _beat(self) -> None:
        while True:
            try:
                os.write(self._output, b".")
            except OSError:
                os._exit(1)
            time.sleep(HEARTBEAT)
