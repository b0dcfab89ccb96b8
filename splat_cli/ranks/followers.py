"""The processes of ranks 1, 2, ... as children of rank 0's process."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection

from splat_cli.processes.child_process import child_environment
from splat_cli.ranks.protocol import FailedRankError, RankError
from splat_cli.ranks.watch import Loss, RankWatch


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
