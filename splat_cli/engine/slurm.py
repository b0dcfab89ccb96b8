"""Dask workers in SLURM jobs, described by a .toml file."""

from __future__ import annotations

import inspect
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from splat_cli.config.presets import read_toml
from splat_cli.errors import UsageError, name_advice, one_line
from splat_cli.terminal.interrupt import kept_signal_handlers

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
            raise UsageError(f'{path}: {name} = {value!r}: expected a list of texts, such as {name} = ["..."]')
    for name in _TEXTS:
        if not isinstance(settings.get(name, ""), str):
            raise UsageError(f'{path}: {name} = {settings[name]!r}: expected a text, such as {name} = "..."')
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
