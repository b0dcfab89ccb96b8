"""The interface of engines, which run jobs, and the choice of one: this machine or a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from splat_cli.device.cuda import require_cuda
from splat_cli.engine.job import Job, JobResult
from splat_cli.engine.local import LocalEngine, device_environments
from splat_cli.terminal.interrupt import Interrupted, deferred_interrupt


class Engine(Protocol):
    """Runs jobs, one per device at a time, by priority and then in the order of submission."""

    def submit(self, job: Job) -> None:
        """Queue a job; it may start at once."""

    def results(self) -> Iterator[JobResult]:
        """Results of the submitted jobs as they finish, until all are done; more jobs may be submitted in between.

        KeyboardInterrupt after Ctrl-C. UsageError if no job can run here. A job that cannot run has a result with an
        error; the others go on.
        """

    def run_ranks(self, jobs: Mapping[int, Job]) -> JobResult | None:
        """The result of one job on the largest possible number of free GPUs, one rank per GPU.

        jobs: the job for each possible number of GPUs, from 2. None if too few are free. If ranks cannot start or one
        is lost, all ranks end and the result has an error. Call it while no other job is submitted. KeyboardInterrupt
        after Ctrl-C.
        """

    def close(self) -> None:
        """Drop waiting jobs, interrupt running ones, and wait until they have saved."""


@contextmanager
def open_engine(
    device: str, cluster: str | None = None, say: Callable[[str], None] = lambda line: None
) -> Iterator[Engine]:
    """Context with an engine for jobs on `device`: "auto", "cuda" or "cpu". All its jobs have ended afterwards.

    cluster: Dask cluster (see `connected_client`), by default only this machine. say: shows which job runs where. After
    Ctrl-C, SIGTERM or SIGHUP, raises Interrupted as soon as the running jobs have saved.
    """
    with deferred_interrupt() as check, _opened(device, cluster, say, check) as engine:
        try:
            yield engine
        except KeyboardInterrupt as error:
            engine.close()
            raise Interrupted("Interrupted; run the same command again to continue with the rest", error) from None
        finally:
            engine.close()


@contextmanager
def _opened(
    device: str, cluster: str | None, say: Callable[[str], None], check: Callable[[], None]
) -> Iterator[Engine]:
    if device == "cuda" and (cluster is None or cluster.startswith("local:")):
        require_cuda()
    if cluster is None:
        yield LocalEngine(device_environments(device), check, say)
        return
    from splat_cli.engine.clusters import connected_client

    with connected_client(cluster, device, say) as client:
        from splat_cli.engine.dask_engine import DaskEngine

        yield DaskEngine(client, device, say, check)
