"""Dask clusters: one that runs, processes of this machine, or SLURM jobs."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from splat_cli.config.presets import read_toml
from splat_cli.engine.local import device_environments
from splat_cli.errors import SplatError, UsageError, one_line, reason_of
from splat_cli.interrupt import kept_signal_handlers

if TYPE_CHECKING:
    from distributed import Client

_TIMEOUT = 10.0  # seconds for the scheduler to answer
_RESUBMIT = 30.0  # seconds between two looks for SLURM jobs that have ended
_CERTIFICATES = [f"DASK_DISTRIBUTED__COMM__TLS__{name}" for name in ("CA_FILE", "CLIENT__CERT", "CLIENT__KEY")]
_LOGGERS = ("distributed", "distributed.client", "tornado", "tornado.application", "asyncio")


@contextmanager
def connected_client(cluster: str, device: str, say: Callable[[str], None]) -> Iterator[Client]:
    """A client of a cluster: `tcp://HOST:PORT`, `local:N`, or the .toml file of `_slurm_cluster`.

    Clusters that are started here end afterwards. UsageError, in one line, where there is none.
    """
    with ExitStack() as stack:
        if re.fullmatch(r"(tcp|tls|wss?|ucx)://[^/]+:\d{1,5}", cluster):
            _import_dask()
            _check_scheduler(cluster)
            address: Any = cluster
        elif local := re.fullmatch(r"local:([1-9]\d{0,3})", cluster):
            _import_dask()
            address = stack.enter_context(_local_cluster(int(local[1]), device))
        elif cluster.endswith(".toml"):
            address = stack.enter_context(_slurm_cluster(Path(cluster)))
        else:
            raise UsageError(f"--cluster {cluster}: give tcp://HOST:PORT, local:N, or a .toml file for SLURM")
        client = stack.enter_context(_client(address))
        _check_versions(client)
        if not client.scheduler_info()["workers"]:
            say("Waiting for workers to join the cluster")
        yield client


def _import_dask() -> None:
    """Imports Dask, without its log, most of which is about workers that come and go. UsageError if it is missing."""
    try:
        import dask

        dask.config.set({"logging": dict.fromkeys(_LOGGERS, "critical")})
        import distributed  # noqa: F401
    except ImportError:
        raise UsageError("--cluster needs Dask: pip install 'splat-cli[cluster]'") from None


def _check_scheduler(address: str) -> None:
    """UsageError where no scheduler answers: a `Client` that cannot connect waits and prints when it is deleted."""
    from distributed.comm import connect
    from distributed.security import Security

    async def try_once() -> None:
        credentials = Security().get_connection_args("client")  # as a `Client` reads them from Dask's configuration
        if is_encrypted and credentials.get("ssl_context") is None:
            raise ValueError("no certificates")
        (await connect(address, timeout=_TIMEOUT, **credentials)).abort()

    is_encrypted = address.startswith(("tls:", "wss:"))
    try:  # in a thread of its own: the caller's may have an event loop that runs, as in a notebook
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: asyncio.run(try_once())).result()
    except Exception as error:  # of many types, of other programs that answer, missing certificates or protocols
        advice = "start `dask scheduler` there, and `dask worker ADDRESS` on each machine"
        if is_encrypted:
            advice += f"; name certificates that it accepts in {', '.join(_CERTIFICATES)}"
        raise UsageError(f"no Dask scheduler answers at {address} ({reason_of(error)}): {advice}") from None


def _client(address: Any) -> Client:
    """A client of the scheduler at `address`, or of a cluster that was started here. SplatError."""
    from distributed import Client

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of versions, which _check_versions tells
            return Client(address, timeout=_TIMEOUT, set_as_default=False, name="splat")
    except OSError as error:
        raise SplatError(f"the Dask scheduler does not answer ({reason_of(error)}): run the command again") from None


def _check_versions(client: Client) -> None:
    """UsageError where scheduler or workers have another version of Python or Dask than this process."""
    versions = client.get_versions()
    ours = _versions(versions["client"])
    for place, found in [("the scheduler", versions["scheduler"]), *versions["workers"].items()]:
        if _versions(found) != ours:
            raise UsageError(
                f"versions differ: {ours} here, {_versions(found)} on {place}; install the same on all machines"
            )


def _versions(found: dict[str, Any]) -> str:
    packages = found["packages"]
    return f"Python {'.'.join(packages['python'].split('.')[:2])} and distributed {packages['distributed']}"


@contextmanager
def _local_cluster(num: int, device: str) -> Iterator[Any]:
    """`num` worker processes on this machine, with a device each as far as there are enough."""
    from distributed import Nanny, Scheduler, SpecCluster

    devices = device_environments(device)
    options = {
        "nthreads": 1, "host": "127.0.0.1", "memory_limit": 0, "silence_logs": logging.CRITICAL,
        "preload": ["splat_cli.engine.dask_worker"],
    }  # fmt: skip
    workers = {
        number: {"cls": Nanny, "options": {**options, "env": devices[number % len(devices)]}} for number in range(num)
    }
    scheduler = {
        "cls": Scheduler,
        "options": {"host": "127.0.0.1", "port": 0, "dashboard": False, "dashboard_address": ":0"},
    }
    with SpecCluster(workers, scheduler, silence_logs=logging.CRITICAL) as cluster:
        yield cluster


@contextmanager
def _slurm_cluster(path: Path) -> Iterator[Any]:
    """Workers in SLURM jobs: `jobs`, their number, and arguments of dask_jobqueue.SLURMCluster for each."""
    settings = read_toml(path)
    num = settings.pop("jobs", None)
    if not isinstance(num, int) or num < 1:
        raise UsageError(f"{path} needs `jobs`, the number of SLURM jobs, from 1")
    _import_dask()
    try:
        with kept_signal_handlers():  # at SIGINT it would have the program exit with code 0
            from dask_jobqueue import SLURMCluster
    except ImportError:
        raise UsageError(f"{path} needs dask-jobqueue: pip install 'splat-cli[cluster]'") from None
    if shutil.which("sbatch") is None:
        raise UsageError(f"{path} needs SLURM, but there is no `sbatch`: run this command where you submit jobs")
    try:
        cluster = SLURMCluster(**{"cores": 1, **settings})
    except (TypeError, ValueError, RuntimeError, ImportError, OSError) as error:
        raise UsageError(f"{path} does not suit dask_jobqueue.SLURMCluster: {one_line(error)}") from None
    ended = threading.Event()
    try:
        _submit(cluster, num)
        threading.Thread(target=_resubmit, args=(cluster, num, ended), daemon=True).start()
        yield cluster
    finally:
        ended.set()
        with suppress(AssertionError):  # about jobs that could not be submitted
            cluster.close()


def _submit(cluster: Any, num: int) -> None:
    """Submit `num` jobs; UsageError if that fails, which `scale` would only log."""

    async def submitted() -> None:
        await cluster

    for _ in range(num):
        cluster.worker_spec.update(cluster.new_worker_spec())
    try:
        cluster.sync(submitted)
    except RuntimeError as error:
        raise UsageError(f"SLURM rejects the jobs: {one_line(error)}") from None


def _resubmit(cluster: Any, num: int, ended: threading.Event) -> None:
    """Submits other jobs in place of those that end, at their time limit for example."""
    while not ended.wait(_RESUBMIT):
        cluster.scale(jobs=num)
