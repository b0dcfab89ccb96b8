"""Processes of ranks 1, 2, ..., watched by rank 0: heartbeats, failure reports, and the reaction to a lost rank."""

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
from contextlib import suppress
from multiprocessing.connection import Connection

from splat_cli.processes.child_process import child_environment, end_with_parent
from splat_cli.ranks.protocol import FailedRankError, RankError
from splat_cli.terminal.interrupt import ENDING_SIGNALS

HEARTBEAT_INTERVAL = 1.0  # seconds
HEARTBEAT_TIMEOUT = 60.0  # a process counts as lost after this many seconds without a heartbeat
_GRACE = 20.0  # seconds after a loss until rank 0 ends immediately, if it still waits for a rank
_POLL = 0.1  # seconds between two of these checks
_FAILED, _DEVICE_FAILED = b"!", b"?"  # first byte of a failure report; a heartbeat is a dot

Loss = tuple[type[RankError], str]


class RankWatch:
    """Monitors the processes of the other ranks in threads, until `close`. Subclasses start or connect to them.

    connections: one per rank, for messages. on_lost and is_waiting are called in another thread: on_lost when the first
    process has ended or hangs; is_waiting returns whether the main thread then still waits for a rank without `check`.
    """

    def __init__(self) -> None:
        self.connections = list[Connection]()
        self.on_lost: Callable[[], None] = lambda: None
        self.is_waiting: Callable[[], bool] = lambda: False
        self._closing, self._watchers = threading.Event(), list[threading.Thread]()
        self._loss: Loss | None = None

    def check(self) -> None:
        """RankError if a process has ended or hangs, FailedRankError if a restart would not help."""
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
        """End the processes and transfers to them. Called from any thread, possibly more than once."""
        raise NotImplementedError

    def _ending(self, rank: int) -> Loss:
        """Reason for the end of a process that has sent no failure report."""
        raise NotImplementedError

    def _watch(self, heartbeats: Sequence[int]) -> None:
        """Monitor the descriptors to which ranks 1, 2, ... write heartbeats, each in a thread."""
        for rank, descriptor in enumerate(heartbeats, 1):
            arguments = rank, 1 + len(heartbeats), descriptor
            watcher = threading.Thread(target=self._watch_one, args=arguments, name=f"rank {rank}", daemon=True)
            self._watchers.append(watcher)
            watcher.start()

    def _watch_one(self, rank: int, size: int, descriptor: int) -> None:
        report, last_heard = b"", time.monotonic()
        while not self._closing.is_set():
            if select.select([descriptor], [], [], HEARTBEAT_INTERVAL)[0]:
                news = b""
                with suppress(OSError):  # a connection that was reset
                    news = os.read(descriptor, 4096)
                if not news:
                    kind, reason = _reported_loss(report) or self._ending(rank)
                    self._record_loss(kind, f"rank {rank} of {size} {reason}")
                    return
                report, last_heard = report + news.strip(b"."), time.monotonic()
            elif time.monotonic() - last_heard > HEARTBEAT_TIMEOUT:
                self._record_loss(
                    RankError, f"rank {rank} of {size} does not respond: no heartbeat for {HEARTBEAT_TIMEOUT:.0f} s"
                )
                return

    def _record_loss(self, kind: type[RankError], reason: str) -> None:
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


def _reported_loss(report: bytes) -> Loss | None:
    """The loss that a process has reported by `Heartbeat.fail`."""
    if not report:
        return None
    kind = RankError if report.startswith(_DEVICE_FAILED) else FailedRankError
    return kind, f"failed: {report[1:].decode(errors='replace')}"


class Heartbeat:
    """Sends heartbeats of a follower to rank 0 through standard output, and ends this process with its parent.

    The process also ends when rank 0 no longer receives heartbeats. Other output is redirected to standard error.
    SIGINT, SIGTERM and SIGHUP are ignored: a cluster may send them to all processes of a job, but rank 0 still needs
    the other ranks' shares of the splats, to save them.
    """

    def __init__(self) -> None:
        for number in ENDING_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        self._output = os.dup(1)
        os.dup2(2, 1)
        threading.Thread(target=self._beat, daemon=True).start()
        end_with_parent()

    def fail(self, reason: str, of_device: bool = False) -> None:
        """Tell rank 0 why this process ends. of_device: whether the device failed, so that a restart may help."""
        os.write(self._output, (_DEVICE_FAILED if of_device else _FAILED) + reason.encode())

    def _beat(self) -> None:
        while True:
            try:
                os.write(self._output, b".")
            except OSError:
                os._exit(1)
            time.sleep(HEARTBEAT_INTERVAL)


class Followers(RankWatch):
    """Runs `python -m module SOCKET RANK SIZE FILES...` for ranks 1 to size - 1, until `close`.

    The processes get no signals of the terminal, and end when their standard input is closed, for example when this
    process ends. environments: variables of each process; files: descriptors that they inherit.
    """

    def __init__(
        self, module: str, size: int, environments: Sequence[Mapping[str, str]] = (), files: Sequence[int] = ()
    ) -> None:
        super().__init__()
        self._processes = list[subprocess.Popen[bytes]]()
        for rank in range(1, size):
            ours, theirs = socket.socketpair()
            arguments = [str(theirs.fileno()), str(rank), str(size), *map(str, files)]
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=(theirs.fileno(), *files),
                start_new_session=True,
                env=child_environment(environments[rank - 1] if environments else {}),
            )
            theirs.close()
            self.connections.append(Connection(ours.detach()))
            self._processes.append(process)
        self._watch([process.stdout.fileno() for process in self._processes if process.stdout])

    def close(self) -> None:
        super().close()
        for process in self._processes:
            with process:  # closes its pipes and waits for its end
                pass

    def _end_all(self) -> None:
        for process in self._processes:
            process.kill()

    def _ending(self, rank: int) -> Loss:
        code = self._processes[rank - 1].wait()
        if code < 0:
            return RankError, f"was ended by {signal.Signals(-code).name}"
        return FailedRankError, f"ended with exit code {code}"
