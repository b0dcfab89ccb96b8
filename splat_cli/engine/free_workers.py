"""Choice of the workers of a Dask cluster for the ranks of a run: free ones, on as few hosts as possible."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from distributed import Client

from splat_cli import __version__
from splat_cli.device.cuda import why_no_cuda
from splat_cli.engine.dask_engine import lacks_program, remote_call
from splat_cli.engine.dask_worker import check_visible
from splat_cli.engine.job import Job
from splat_cli.engine.local import device_environments
from splat_cli.errors import SplatError, UsageError

_POLL = 0.2  # seconds
_PATIENCE = 120.0  # seconds in which lost workers may return before a run continues with fewer


@dataclass(frozen=True)
class WorkerInfo:
    """A worker. host: equal for workers that can share memory; gpus: names of those it sees."""

    host: str
    gpus: tuple[str, ...]
    why_no_gpu: str


class FreeWorkers:
    """Finds workers for several ranks. device: "auto", "cuda" or "cpu".

    can_grow: whether further workers may join the cluster. say: shows a line of progress. check: called often, may
    raise KeyboardInterrupt.
    """

    def __init__(
        self, client: Client, device: str, can_grow: bool, say: Callable[[str], None], check: Callable[[], None]
    ) -> None:
        self._client, self._device, self._can_grow, self._say, self._check = client, device, can_grow, say, check
        self._infos: dict[str, WorkerInfo] = {}
        self._were_there = False  # whether enough workers were there: lost ones may return

    def wait(self, job: Job, sizes: Sequence[int]) -> tuple[list[str], str]:
        """Workers of all ranks of a job, with a free device for each, and the kind of devices.

        sizes: possible numbers of ranks, in descending order: the first, or if the cluster has too few workers, the
        largest for which it has enough. Workers that join, or return after a loss, are waited for up to _PATIENCE
        seconds. UsageError if there will be too few, or if the job cannot run on them.
        """
        end, has_said = time.monotonic() + _PATIENCE, False
        while True:
            self._check()
            threads = self._client.nthreads()
            self._describe([worker for worker in threads if worker not in self._infos], job)
            infos = {worker: self._infos[worker] for worker in threads if worker in self._infos}
            device = _kind_of_devices(self._device, infos)
            places, can_change = slots(infos, threads, device), self._can_grow or self._were_there
            is_late = len(infos) == len(threads) and (not can_change or time.monotonic() > end)
            size = _largest(infos, places, sizes, device) if is_late else sizes[0]
            free = slots(infos, threads, device, self._num_tasks())
            if workers := chosen_workers(infos, free, size, device):
                self._were_there = True
                return workers, device
            if not self._were_there and len(infos) == len(threads):
                self._refuse(infos, places, sizes[-1], device)
            if not has_said:
                self._say(f"Waiting for {size} free {NAMES[device]} of the cluster")
                has_said = True
            time.sleep(_POLL)

    def most(self, job: Job, sizes: Sequence[int]) -> int | None:
        """The largest of `sizes` for which enough workers are free now. UsageError if the job cannot run on them."""
        threads = self._client.nthreads()
        self._describe([worker for worker in threads if worker not in self._infos], job)
        infos = {worker: self._infos[worker] for worker in threads if worker in self._infos}
        device = _kind_of_devices(self._device, infos)
        free = slots(infos, threads, device, self._num_tasks())
        return next((size for size in sorted(sizes, reverse=True) if chosen_workers(infos, free, size, device)), None)

    def _num_tasks(self) -> dict[str, int]:
        """Number of tasks of each worker."""
        return {worker: len(keys) for worker, keys in self._client.processing().items()}

    def _describe(self, workers: list[str], job: Job) -> None:
        if not workers:
            return
        call, work = remote_call(describe_worker, job, __version__)
        found = self._client.run(call, work, workers=workers, on_error="return")
        for worker, info in found.items():
            if isinstance(info, ImportError):
                raise lacks_program(info)
            if isinstance(info, SplatError):
                raise info
            if isinstance(info, WorkerInfo):  # else it is lost
                self._infos[worker] = info

    def _refuse(self, infos: Mapping[str, WorkerInfo], places: Mapping[str, int], size: int, device: str) -> None:
        """UsageError if no host has enough workers on the CPU, or the cluster has too few and cannot grow."""
        num, most = sum(places.values()), max(map(len, _by_host(infos, places).values()), default=0)
        if device == "cpu" and most < size <= num:
            raise UsageError(
                f"--gpus {size} on the CPU: processes share memory, but no host has {size} workers; start them on one "
                "host, or use GPUs, which NCCL connects across hosts"
            )
        if not self._can_grow and num < size:
            raise UsageError(f"--gpus {size}: too few {NAMES[device]} in the cluster: {num}; each process needs one")


NAMES = {"cuda": "GPUs", "cpu": "workers"}


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
    """The device, without "auto". UsageError for "cuda" where no worker has a GPU."""
    has_gpus = any(one.gpus for one in infos.values())
    if device == "cuda" and infos and not has_gpus:
        raise UsageError(f"--device cuda: no worker has a GPU ({next(iter(infos.values())).why_no_gpu})")
    return "cuda" if device != "cpu" and (has_gpus or device == "cuda") else "cpu"


def slots(
    infos: Mapping[str, WorkerInfo], threads: Mapping[str, int], device: str, busy: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Number of ranks that each worker can run: one per thread and device. A GPU counts for the first that sees it.

    busy: number of tasks that it has.
    """
    found, taken = {}, set[tuple[str, str]]()
    for worker in sorted(infos):
        gpus = {(infos[worker].host, gpu) for gpu in infos[worker].gpus} - taken
        taken |= gpus
        num = min(len(gpus) if device == "cuda" else 1, threads[worker])
        found[worker] = max(num - (busy or {}).get(worker, 0), 0)
    return found


def _largest(infos: Mapping[str, WorkerInfo], places: Mapping[str, int], sizes: Sequence[int], device: str) -> int:
    """The largest of `sizes` (descending) for which the cluster has workers, free or not; if there is none, the first.

    places: `slots` of each.
    """
    return next((size for size in sizes if chosen_workers(infos, places, size, device)), sizes[0])


def chosen_workers(
    infos: Mapping[str, WorkerInfo], places: Mapping[str, int], size: int, device: str
) -> list[str] | None:
    """Workers of `size` ranks, on as few hosts as possible, on the CPU on a single one; None if there are too few.

    places: `slots` of each.
    """
    hosts = sorted(_by_host(infos, places).values(), key=len, reverse=True)
    if device == "cpu":
        hosts = hosts[:1]
    workers = [worker for host in hosts for worker in host][:size]
    return workers if len(workers) == size else None


def _by_host(infos: Mapping[str, WorkerInfo], places: Mapping[str, int]) -> dict[str, list[str]]:
    """Host -> its workers, each as often as it can run a rank."""
    hosts: dict[str, list[str]] = {}
    for worker, num in places.items():
        hosts.setdefault(infos[worker].host, []).extend([worker] * num)
    return hosts
