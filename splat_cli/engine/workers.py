"""Workers of a Dask cluster: which can run jobs, how many places are free, which ones become the ranks of a run.

Dask's worker resources cannot count places: a worker that a user starts has none until they are set, and the scheduler
does not check again whether waiting tasks can then run.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from distributed import Client, Lock

from splat_cli.device.cuda import why_no_cuda
from splat_cli.engine.dask_calls import ask_workers, lacks_program
from splat_cli.engine.dask_worker import check_visible
from splat_cli.engine.process import device_environments
from splat_cli.errors import SplatError, UsageError

NAMES = {"cuda": "GPUs", "cpu": "workers"}
_ANSWER = 60.0  # seconds in which a new worker must answer; it imports this program first
_LOCK = "splat-turn"
_WAIT = 0.2  # seconds


class Turn:
    """The lock that a command holds while it takes free workers, so that no other command takes them.

    Dask releases the lock of a command that was killed after 30 s.
    """

    def __init__(self, client: Client) -> None:
        self._lock, self._is_held = Lock(_LOCK, scheduler_rpc=client.scheduler, loop=client.loop), False

    def take(self) -> bool:
        """Whether this command holds the lock; waits for it briefly. OSError if the connection is lost."""
        self._is_held = self._is_held or self._lock.acquire(timeout=_WAIT)
        return self._is_held

    def give_back(self) -> None:
        """Release the lock, if this command holds it."""
        if self._is_held:
            self._is_held = False
            self._lock.release()


@dataclass(frozen=True)
class WorkerInfo:
    """A worker. host: the same for workers that can share memory; gpus: names of the GPUs it sees."""

    host: str
    gpus: tuple[str, ...]
    why_no_gpu: str


class Workers:
    """The workers that can run jobs. A place runs one job or rank: a thread of a worker with its own GPU.

    On the CPU, a worker has one place.

    device: "auto", "cuda" or "cpu"; `kind` is the same without "auto": "cuda" if any worker has a GPU. say: shows a
    line of progress.
    """

    def __init__(self, client: Client, device: str, say: Callable[[str], None]) -> None:
        self._client, self._device, self._say, self.kind = client, device, say, "cpu"
        self.threads: dict[str, int] = {}  # by connected worker
        self._infos: dict[str, WorkerInfo] = {}  # by worker that can run jobs, including lost ones
        self._refused: dict[str, SplatError] = {}

    def look(self, paths: Sequence[Path]) -> None:
        """Find the connected workers; ask new ones whether they see these files and folders.

        Leaves out workers that cannot run jobs, and says why. UsageError if no worker could so far, or if none has the
        GPU that the user asked for. OSError if the connection is lost.
        """
        before, self.threads = self.threads, self._client.nthreads()
        if before and not self.threads:
            self._say("All workers have left the cluster: waiting for others to join")
        new = [worker for worker in self.threads if worker not in self._infos | self._refused]
        for worker, answer in ask_workers(self._client, new, _ANSWER, describe_worker, paths).items():
            if isinstance(answer, WorkerInfo):
                self._infos[worker] = answer
            elif isinstance(answer, TimeoutError):
                self._refused[worker] = UsageError(f"{worker} does not answer: restart it")
            elif isinstance(answer, ImportError):
                self._refused[worker] = lacks_program(answer)
            elif isinstance(answer, SplatError):
                self._refused[worker] = answer  # any other exception: the worker is lost
        for error in [self._refused[worker] for worker in new if worker in self._refused]:
            if not self._infos and self.is_known():
                raise error
            self._say(f"A worker gets no jobs: {error}")
        has_gpus = any(info.gpus for info in self._infos.values())
        if self._device == "cuda" and self._infos and not has_gpus:
            reason = next(iter(self._infos.values())).why_no_gpu
            raise UsageError(f"--device cuda: no worker has a GPU ({reason})")
        self.kind = "cuda" if self._device == "cuda" or (self._device == "auto" and has_gpus) else "cpu"

    def is_known(self) -> bool:
        """Whether all connected workers have answered."""
        return self.threads.keys() <= self._infos.keys() | self._refused.keys()

    def places(self, shared: bool = False) -> dict[str, int]:
        """Number of places of each worker that has any, free or not. A GPU counts for the first worker that sees it.

        shared: a GPU counts for each worker that sees it.
        """
        found, taken = {}, set[tuple[str, str]]()
        for worker in sorted(self.threads.keys() & self._infos.keys()):
            info = self._infos[worker]
            gpus = {(info.host, gpu) for gpu in info.gpus} - taken
            if not shared:
                taken |= gpus
            if num := min(len(gpus) if self.kind == "cuda" else 1, self.threads[worker]):
                found[worker] = num
        return found

    def free(self, places: Mapping[str, int]) -> dict[str, int]:
        """The places without a task. OSError if the connection is lost."""
        tasks = self._client.processing()
        return {worker: max(num - len(tasks.get(worker, ())), 0) for worker, num in places.items()}

    def choose(self, places: Mapping[str, int], size: int) -> list[str] | None:
        """Workers of `size` ranks, on as few hosts as possible (on the CPU: a single host); None if there are too few.

        A worker with n places may be chosen n times.
        """
        hosts: dict[str, list[str]] = {}
        for worker, num in places.items():
            hosts.setdefault(self._infos[worker].host, []).extend([worker] * num)
        largest_first = sorted(hosts.values(), key=len, reverse=True)[: 1 if self.kind == "cpu" else None]
        workers = [worker for host in largest_first for worker in host][:size]
        return workers if len(workers) == size else None


def describe_worker(paths: Sequence[Path]) -> WorkerInfo:
    """Host and GPUs of this worker. UsageError if it does not see these paths."""
    check_visible(paths, platform.node())
    why_not = why_no_cuda()
    gpus = () if why_not else tuple(one["CUDA_VISIBLE_DEVICES"] for one in device_environments("cuda"))
    return WorkerInfo(_memory_space(), gpus, why_not)


def _memory_space() -> str:
    """Identifies the kernel and the PID namespace: equal for processes that can open each other's files in /proc."""
    if sys.platform != "linux":
        return platform.node()
    return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {Path('/proc/self/ns/pid').stat().st_ino}"
