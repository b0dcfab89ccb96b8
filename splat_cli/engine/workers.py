"""Workers of a Dask cluster: finds usable workers, counts free places and chooses the workers of ranks."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from distributed import Client

from splat_cli import __version__
from splat_cli.device.cuda import why_no_cuda
from splat_cli.engine.dask_calls import ask_workers, lacks_program
from splat_cli.engine.dask_worker import check_visible
from splat_cli.engine.job import Job
from splat_cli.engine.local import device_environments
from splat_cli.errors import SplatError, UsageError

NAMES = {"cuda": "GPUs", "cpu": "workers"}
_ANSWER = 60.0  # seconds in which a new worker must answer; it imports this program first


@dataclass(frozen=True)
class WorkerInfo:
    """A worker. host: the same for workers that can share memory; gpus: names of the GPUs it sees."""

    host: str
    gpus: tuple[str, ...]
    why_no_gpu: str


class Workers:
    """The workers that can run jobs. A place runs one job or rank: a thread of a worker with its own GPU.

    On the CPU, a worker has one place. Dask's resources cannot count places: a new worker has none until they are set,
    and the scheduler does not check again whether waiting tasks can then run.

    device: "auto", "cuda" or "cpu"; `kind` is the same without "auto": "cuda" if any worker has a GPU. say: shows a
    line of progress.
    """

    def __init__(self, client: Client, device: str, say: Callable[[str], None]) -> None:
        self._client, self._device, self._say, self.kind = client, device, say, "cpu"
        self.threads: dict[str, int] = {}  # by connected worker
        self._infos: dict[str, WorkerInfo] = {}  # by worker that can run jobs, including lost ones
        self._refused: dict[str, SplatError] = {}

    def look(self, job: Job) -> None:
        """Find the connected workers; ask new ones whether they can run the job.

        Leaves out workers that cannot, and says why. UsageError if no worker could so far. OSError if the
        connection is lost.
        """
        before, self.threads = self.threads, self._client.nthreads()
        if before and not self.threads:
            self._say("All workers have left the cluster: waiting for others to join")
        new = [worker for worker in self.threads if worker not in (*self._infos, *self._refused)]
        for worker, info in ask_workers(self._client, new, _ANSWER, describe_worker, job, __version__).items():
            if isinstance(info, WorkerInfo):
                self._infos[worker] = info
            elif isinstance(info, TimeoutError):
                self._refused[worker] = UsageError(f"{worker} does not answer: restart it")
            elif isinstance(info, ImportError):
                self._refused[worker] = lacks_program(info)
            elif isinstance(info, SplatError):
                self._refused[worker] = info  # any other exception: the worker is lost
        self._report([worker for worker in new if worker in self._refused])
        self.kind = _kind_of_devices(self._device, self._infos)

    def is_known(self) -> bool:
        """Whether all connected workers have answered."""
        return self.threads.keys() <= self._infos.keys() | self._refused.keys()

    def present(self) -> dict[str, WorkerInfo]:
        """The connected workers that can run jobs."""
        return {worker: self._infos[worker] for worker in self.threads if worker in self._infos}

    def places(self, shared: bool = False) -> dict[str, int]:
        """Number of places of each worker, free or not. shared: whether several workers may use a GPU."""
        return places_of(self.present(), self.threads, self.kind, shared)

    def free(self, places: Mapping[str, int]) -> dict[str, int]:
        """The places without a task. OSError if the connection is lost."""
        tasks = self._client.processing()
        return {worker: max(num - len(tasks.get(worker, ())), 0) for worker, num in places.items()}

    def _report(self, refused: Sequence[str]) -> None:
        """Say why workers are left out; UsageError if no workers remain and none could run a job so far."""
        if refused and not self._infos and self.threads.keys() <= self._refused.keys():
            raise self._refused[refused[0]]
        for worker in refused:
            self._say(f"A worker gets no jobs: {self._refused[worker]}")


def describe_worker(job: Job, version: str) -> WorkerInfo:
    """Host and GPUs of this worker. UsageError if the job cannot run here."""
    check_visible(job, version, platform.node())
    why_not = why_no_cuda()
    gpus = () if why_not else tuple(one["CUDA_VISIBLE_DEVICES"] for one in device_environments("cuda"))
    return WorkerInfo(_memory_space(), gpus, why_not)


def _memory_space() -> str:
    """Identifies the kernel and the PID namespace: equal for processes that can open each other's files in /proc."""
    if sys.platform != "linux":
        return platform.node()
    return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {Path('/proc/self/ns/pid').stat().st_ino}"


def _kind_of_devices(device: str, infos: Mapping[str, WorkerInfo]) -> str:
    """The device, without "auto". UsageError for "cuda" if no worker has a GPU."""
    has_gpus = any(one.gpus for one in infos.values())
    if device == "cuda" and infos and not has_gpus:
        raise UsageError(f"--device cuda: no worker has a GPU ({next(iter(infos.values())).why_no_gpu})")
    return "cuda" if device != "cpu" and (has_gpus or device == "cuda") else "cpu"


def places_of(
    infos: Mapping[str, WorkerInfo], threads: Mapping[str, int], kind: str, shared: bool = False
) -> dict[str, int]:
    """Number of places of each worker that has any. A GPU counts for the first worker that sees it.

    shared: a GPU counts for each worker that sees it.
    """
    found, taken = {}, set[tuple[str, str]]()
    for worker in sorted(infos):
        gpus = {(infos[worker].host, gpu) for gpu in infos[worker].gpus} - taken
        if not shared:
            taken |= gpus
        if num := min(len(gpus) if kind == "cuda" else 1, threads[worker]):
            found[worker] = num
    return found


def largest(infos: Mapping[str, WorkerInfo], places: Mapping[str, int], sizes: Sequence[int], kind: str) -> int | None:
    """The largest of `sizes` for which there are enough places; None if there are too few for all."""
    found = (size for size in sorted(sizes, reverse=True) if chosen_workers(infos, places, size, kind))
    return next(found, None)


def chosen_workers(
    infos: Mapping[str, WorkerInfo], places: Mapping[str, int], size: int, kind: str
) -> list[str] | None:
    """Workers of `size` ranks, on as few hosts as possible (on the CPU: a single host); None if there are too few."""
    hosts = sorted(by_host(infos, places).values(), key=len, reverse=True)
    if kind == "cpu":
        hosts = hosts[:1]
    workers = [worker for host in hosts for worker in host][:size]
    return workers if len(workers) == size else None


def by_host(infos: Mapping[str, WorkerInfo], places: Mapping[str, int]) -> dict[str, list[str]]:
    """Host -> its workers; a worker with n places is listed n times."""
    hosts: dict[str, list[str]] = {}
    for worker, num in places.items():
        hosts.setdefault(infos[worker].host, []).extend([worker] * num)
    return hosts
