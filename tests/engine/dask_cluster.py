"""A Dask cluster of processes, started as users do: `dask scheduler` and `dask worker`."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.subprocesses import environment, started, wait_until

# distributed leaves sockets open if no scheduler answers, or if a signal interrupts a connection
LEFT_OPEN = "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"


class DaskCluster:
    """The processes. address: address of the scheduler. workers: have no nannies, which would restart them."""

    def __init__(self, folder: Path, stack: ExitStack, options: tuple[object, ...], scheme: str) -> None:
        self._folder, self._stack, self._options = folder, stack, options
        self.workers = list[subprocess.Popen[str]]()
        self.scheduler = self._start("scheduler", f"--host={scheme}://127.0.0.1", "--port=0", "--no-dashboard")
        self.address = wait_until(self._address, self.scheduler)

    def add_worker(self, *options: object, **variables: object) -> "subprocess.Popen[str]":
        """Start a worker with these options and environment variables, and wait until it has joined."""
        number = len(self.workers)
        arguments = (
            self.address,
            "--host=127.0.0.1",
            "--nthreads=1",
            "--memory-limit=0",
            "--no-nanny",
            "--no-dashboard",
        )
        self.workers.append(self._start("worker", *arguments, *options, name=f"worker-{number}", **variables))
        wait_until(lambda: "Registered to:" in self.log(f"worker-{number}"), self.workers[-1])
        return self.workers[-1]

    def log(self, name: str) -> str:
        """Output of a process: "scheduler" or "worker-N"."""
        return (self._folder / f"{name}.log").read_text()

    def _start(
        self, command: str, *arguments: object, name: str | None = None, **variables: object
    ) -> "subprocess.Popen[str]":
        with (self._folder / f"{name or command}.log").open("w") as log:
            options = {"stdout": log, "stderr": log, "cwd": self._folder, "env": {**environment(), **variables}}
            return self._stack.enter_context(started(["dask", command, *arguments, *self._options], **options))

    def _address(self) -> str | None:
        lines = [line for line in self.log("scheduler").splitlines() if "Scheduler at:" in line]
        return lines[0].split("Scheduler at:")[1].strip() if lines else None


@contextmanager
def dask_cluster(folder: Path, num_workers: int, *options: object, scheme: str = "tcp") -> Iterator[DaskCluster]:
    """A scheduler and workers on the loopback interface; killed at the end. options: for all processes."""
    folder.mkdir(exist_ok=True)
    with ExitStack() as stack:
        cluster = DaskCluster(folder, stack, options, scheme)
        for _ in range(num_workers):
            cluster.add_worker()
        yield cluster
