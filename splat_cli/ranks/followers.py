"""The processes of ranks 1, 2, ...: started, watched and ended by rank 0."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection

from splat_cli.child_process import child_environment, end_with_parent
from splat_cli.interrupt import ENDING_SIGNALS
from splat_cli.ranks.protocol import FailedRankError, RankError

HEARTBEAT = 1.0  # seconds between two signs of life
STOPPED = 60.0  # seconds without one, after which a process counts as lost
_GRACE = 20.0  # seconds after a loss until rank 0 ends at once, if it goes on waiting for a rank
_POLL = 0.1  # seconds between two checks whether it does
MAY_HELP_TO_RESTART = 75  # exit code of a process that ends with an error of its device (EX_TEMPFAIL of sysexits.h)
REASON = b"!"  # what the message of a failed process begins with; signs of life are dots


class Followers:
    """Runs `python -m module SOCKET RANK SIZE FILES...` for ranks 1 to size - 1, until `close`.

    The processes are out of reach of the terminal's signals, and end when their standard input does, that is with this
    process. environments: of each; files: descriptors that they inherit. connections: to each. on_lost: called from
    another thread when the first one has ended or stopped. is_waiting: whether the main thread then still waits for a
    rank, without calling `check`; called from another thread.
    """

    def __init__(
        self, module: str, size: int, environments: Sequence[Mapping[str, str]] = (), files: Sequence[int] = ()
    ) -> None:
        self.size, self._closing = size, threading.Event()
        self._loss: tuple[type[RankError], str] | None = None
        self.on_lost: Callable[[], None] = lambda: None
        self.is_waiting: Callable[[], bool] = lambda: False
        self.connections, self._processes = list[Connection](), list[subprocess.Popen[bytes]]()
        self._watchers = list[threading.Thread]()
        for rank in range(1, size):
            ours, theirs = socket.socketpair()
            arguments = [str(theirs.fileno()), str(rank), str(size), *map(str, files)]
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                pass_fds=(theirs.fileno(), *files), start_new_session=True,
                env=child_environment(environments[rank - 1] if environments else {}),
            )  # fmt: skip
            theirs.close()
            self.connections.append(Connection(ours.detach()))
            self._processes.append(process)
            watcher = threading.Thread(target=self._watch, args=(rank, process), name=f"rank {rank}", daemon=True)
            self._watchers.append(watcher)
            watcher.start()

    def check(self) -> None:
        """RankError where a process has ended or stopped, FailedRankError where a restart would not help."""
        if self._loss:
            kind, reason = self._loss
            raise kind(reason)

    def close(self) -> None:
        """End all processes."""
        self._closing.set()
        for process in self._processes:
            process.kill()
        for watcher in self._watchers:
            watcher.join()
        for process, connection in zip(self._processes, self.connections, strict=True):
            with process:  # closes its pipes and waits for its end
                connection.close()

    def _watch(self, rank: int, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        said, heard = b"", time.monotonic()
        while not self._closing.is_set():
            if select.select([process.stdout], [], [], HEARTBEAT)[0]:
                news = os.read(process.stdout.fileno(), 4096)
                if not news:
                    code = process.wait()
                    kind = RankError if code < 0 or code == MAY_HELP_TO_RESTART else FailedRankError
                    self._lose(kind, f"rank {rank} of {self.size} {_ending(code, said)}")
                    return
                said, heard = said + news.strip(b"."), time.monotonic()
            elif time.monotonic() - heard > STOPPED:
                self._lose(RankError, f"rank {rank} of {self.size} has stopped: no sign of life for {STOPPED:.0f} s")
                return

    def _lose(self, kind: type[RankError], reason: str) -> None:
        if self._closing.is_set() or self._loss is not None:
            return
        self._loss = kind, reason
        for process in self._processes:
            process.kill()  # ends what rank 0 is sending them
        self.on_lost()
        end = time.monotonic() + _GRACE
        while self.is_waiting() and not self._closing.wait(_POLL):
            if time.monotonic() > end:
                print(f"Error: {reason}", file=sys.stderr, flush=True)
                os._exit(1)


def _ending(code: int, said: bytes) -> str:
    """What a process has done, from its exit code and its last words."""
    if REASON in said:
        return "failed: " + said[said.index(REASON) + 1 :].decode(errors="replace")
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


class Lifeline:
    """In a follower: signs of life to rank 0 through standard output, and the end of this process with that of rank 0.

    Whatever else is written to standard output goes to standard error. Signals that ask for the end are ignored: where
    a cluster sends them to all processes of a job, rank 0 needs the others to save what they have trained.
    """

    def __init__(self) -> None:
        for number in ENDING_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        self._output = os.dup(1)
        os.dup2(2, 1)
        threading.Thread(target=self._beat, daemon=True).start()
        end_with_parent()

    def fail(self, reason: str) -> None:
        """Tell rank 0 why this process ends."""
        os.write(self._output, REASON + reason.encode())

    def _beat(self) -> None:
        while True:
            try:
                os.write(self._output, b".")
            except OSError:
                os._exit(1)
            time.sleep(HEARTBEAT)
