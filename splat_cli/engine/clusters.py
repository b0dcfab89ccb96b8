"""Dask clusters: an existing one, processes of this machine, or SLURM jobs."""

from __future__ import annotations

import asyncio
import inspect
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
from splat_cli.engine.process import device_environments
from splat_cli.errors import SplatError, UsageError, name_advice, one_line, reason_of
from splat_cli.terminal.interrupt import kept_signal_handlers

if TYPE_CHECKING:
    from distributed import Client


_TIMEOUT = 10.0  # seconds for the scheduler to answer
_CERTIFICATES = [f"DASK_DISTRIBUTED__COMM__TLS__{name}" for name in ("CA_FILE", "CLIENT__CERT", "CLIENT__KEY")]
_LOGGERS = ("distributed", "distributed.client", "tornado", "tornado.application", "asyncio")


@contextmanager
def connected_client(cluster: str, device: str, say: Callable[[str], None]) -> Iterator[Client]:
    """Context with a client of a cluster: `tcp://HOST:PORT`, `local:N`, or a .toml file that describes SLURM jobs.

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


_RESUBMIT = 30.0  # seconds between two checks for SLURM jobs that have ended
_OURS = ("n_workers", "asynchronous", "loop", "job_cls", "scheduler_cls", "silence_logs")
"""Arguments of dask_jobqueue.SLURMCluster that this program sets itself."""
_LISTS = ["job_extra_directives", "job_script_prologue", "worker_extra_args", "job_directives_skip"]
_LISTS += ["job_extra", "env_extra", "extra", "header_skip"]
"""Arguments that are lists of strings; dask_jobqueue would treat a string as a list of characters."""
_LOOPBACK_PAGES = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}
"""Scheduler options: its HTTP pages have no password, so only this machine may open them."""
_TEXTS = ("memory", "queue", "account", "job_mem", "interface", "log_directory", "local_directory")


def _read_settings(path: Path) -> dict[str, Any]:
    """`jobs`, the number of SLURM jobs, and arguments of dask_jobqueue.SLURMCluster for each. Raises UsageError."""
    settings = read_toml(path)
    num = settings.get("jobs")
    if not isinstance(num, int) or isinstance(num, bool) or num < 1:
        raise UsageError(f"{path} needs `jobs`, the number of SLURM jobs, from 1")
    for name in _LISTS:
        value = settings.get(name, [])
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise UsageError(f'{path}: {name} = {value!r}: expected a list of strings, such as {name} = ["..."]')
    for name in _TEXTS:
        if not isinstance(settings.get(name, ""), str):
            raise UsageError(f'{path}: {name} = {settings[name]!r}: expected a string, such as {name} = "..."')
    for name in ("cores", "processes", "job_cpu"):
        value = settings.get(name, 1)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise UsageError(f"{path}: {name} = {value!r}: expected a whole number from 1")
    return settings


@contextmanager
def slurm_cluster(path: Path) -> Iterator[Any]:
    """Context with a cluster of workers in SLURM jobs, which a .toml file describes. Raises UsageError."""
    settings = _read_settings(path)
    try:
        with kept_signal_handlers():  # dask_jobqueue's handler of SIGINT exits with code 0
            from dask_jobqueue import SLURMCluster
    except ImportError:
        raise UsageError(f"{path} needs dask-jobqueue: pip install 'splat-cli[cluster]'") from None
    if shutil.which("sbatch") is None:
        raise UsageError(f"{path} needs SLURM, but there is no `sbatch`: run this command where you submit jobs")
    num = settings.pop("jobs")
    _reject_unknown(path, settings)
    try:
        settings["scheduler_options"] = {**_LOOPBACK_PAGES, **settings.get("scheduler_options", {})}
        cluster = SLURMCluster(**{"cores": 1, **settings})
    except (TypeError, ValueError, ArithmeticError, RuntimeError, ImportError, OSError) as error:
        raise UsageError(f"{path} is rejected by dask_jobqueue.SLURMCluster: {one_line(error)}") from None
    ended = threading.Event()
    try:
        _submit(cluster, num)
        threading.Thread(target=_resubmit, args=(cluster, num, ended), daemon=True).start()
        yield cluster
    finally:
        ended.set()
        with suppress(AssertionError):  # raised for jobs that could not be submitted
            cluster.close()


def _submit(cluster: Any, num: int) -> None:
    """Submit `num` jobs; UsageError if that fails, which `scale` would only log."""
    for _ in range(num):
        cluster.worker_spec.update(cluster.new_worker_spec())
    try:
        cluster.sync(lambda: cluster)  # awaits the cluster with its new jobs
    except RuntimeError as error:
        raise UsageError(f"SLURM rejects the jobs: {one_line(error)}") from None


def _resubmit(cluster: Any, num: int, ended: threading.Event) -> None:
    """Until `ended` is set, replace SLURM jobs that end, such as at their time limit."""
    while not ended.wait(_RESUBMIT):
        cluster.scale(jobs=num)


def _reject_unknown(path: Path, settings: dict[str, Any]) -> None:
    """UsageError for keys that SLURMCluster does not accept, or that splat sets."""
    from dask_jobqueue.core import Job, JobQueueCluster
    from dask_jobqueue.slurm import SLURMJob

    signatures = (inspect.signature(kind.__init__).parameters for kind in (JobQueueCluster, Job, SLURMJob))
    known = {name for names in signatures for name in names} - {"self", "job_kwargs", "base_class_kwargs", "scheduler"}
    for name in settings:
        if name in _OURS:
            raise UsageError(f"{path}: {name} cannot be given: splat sets it; `jobs` is the number of SLURM jobs")
        if name not in known:
            advice = name_advice(name, known, "leave it out")
            raise UsageError(f"{path}: {name!r} is not an argument of dask_jobqueue.SLURMCluster; {advice}")
