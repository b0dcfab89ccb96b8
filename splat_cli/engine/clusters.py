"""Dask clusters: an existing one, processes of this machine, or SLURM jobs."""

from __future__ import annotations

import asyncio
import logging
import re
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from splat_cli.engine.process import device_environments
from splat_cli.engine.slurm import slurm_cluster
from splat_cli.errors import SplatError, UsageError, reason_of

if TYPE_CHECKING:
    from distributed import Client

_TIMEOUT = 10.0  # seconds for the scheduler to answer
_CERTIFICATES = [f"DASK_DISTRIBUTED__COMM__TLS__{name}" for name in ("CA_FILE", "CLIENT__CERT", "CLIENT__KEY")]
_LOGGERS = ("distributed", "distributed.client", "tornado", "tornado.application", "asyncio")


@contextmanager
def connected_client(cluster: str, device: str, say: Callable[[str], None]) -> Iterator[Client]:
    """Context with a client of a cluster: `tcp://HOST:PORT`, `local:N`, or the .toml file of slurm.py.

    Clusters started here end afterwards. UsageError if the cluster is not found.
    """
    _import_dask()
    with ExitStack() as stack:
        address: Any = cluster
        if re.fullmatch(r"(tcp|tls|wss?|ucx)://[^/]+:\d{1,5}", cluster):
            _check_scheduler(cluster)
        elif local := re.fullmatch(r"local:([1-9]\d{0,3})", cluster):
            address = stack.enter_context(_local_cluster(int(local[1]), device))
        elif cluster.endswith(".toml"):
            address = stack.enter_context(slurm_cluster(Path(cluster)))
        else:
            raise UsageError(f"--cluster {cluster}: give tcp://HOST:PORT, local:N, or a .toml file for SLURM")
        client = stack.enter_context(_client(address))
        _check_versions(client)
        if not client.scheduler_info()["workers"]:
            say("Waiting for workers to join the cluster")
        yield client


def _import_dask() -> None:
    """Import Dask and silence its log, mostly about workers that join and leave. UsageError if missing."""
    try:
        import dask

        dask.config.set({"logging": dict.fromkeys(_LOGGERS, "critical")})
        import distributed  # noqa: F401
    except ImportError:
        raise UsageError("--cluster needs Dask: pip install 'splat-cli[cluster]'") from None


def _check_scheduler(address: str) -> None:
    """UsageError if no scheduler answers: a `Client` that cannot connect waits and prints when it is deleted."""
    from distributed.comm import connect
    from distributed.security import Security

    async def try_once() -> None:
        credentials = Security().get_connection_args("client")  # a `Client` also reads them from Dask's configuration
        if is_encrypted and credentials.get("ssl_context") is None:
            raise ValueError("no certificates")
        (await connect(address, timeout=_TIMEOUT, **credentials)).abort()

    is_encrypted = address.startswith(("tls:", "wss:"))
    try:  # in a separate thread, because the caller's may run an event loop, for example in a notebook
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: asyncio.run(try_once())).result()
    except Exception as error:  # many types, for example for missing certificates or the answer of another program
        advice = "start `dask scheduler` there, and `dask worker ADDRESS` on each machine"
        if is_encrypted:
            advice += f"; name certificates that it accepts in {', '.join(_CERTIFICATES)}"
        raise UsageError(f"no Dask scheduler answers at {address} ({reason_of(error)}): {advice}") from None


def _client(address: Any) -> Client:
    """A client of the scheduler at `address`, or of a cluster started here. Raises SplatError."""
    from distributed import Client

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about versions, which _check_versions reports
            return Client(address, timeout=_TIMEOUT, set_as_default=False, name="splat")
    except OSError as error:
        raise SplatError(f"the Dask scheduler does not answer ({reason_of(error)}): run the command again") from None


def _check_versions(client: Client) -> None:
    """UsageError if the scheduler or a worker has a different version of Python or Dask."""
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
    """`num` worker processes on this machine, each with its own device if there are enough."""
    from distributed import Nanny, Scheduler, SpecCluster

    loopback = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}  # addresses for tasks, for HTTP pages
    preload = ["splat_cli.engine.dask_worker"]
    options = {"nthreads": 1, "memory_limit": 0, "silence_logs": logging.CRITICAL, "preload": preload, **loopback}
    devices = device_environments(device)
    workers = {
        number: {"cls": Nanny, "options": {**options, "env": devices[number % len(devices)]}} for number in range(num)
    }
    scheduler = {"cls": Scheduler, "options": {"port": 0, "dashboard": False, **loopback}}
    with SpecCluster(workers, scheduler, silence_logs=logging.CRITICAL) as cluster:
        yield cluster
