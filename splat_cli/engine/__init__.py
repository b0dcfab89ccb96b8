"""Jobs: commands in separate processes, on this machine or on the workers of a Dask cluster."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from splat_cli.device.cuda import require_cuda
from splat_cli.engine.engine import Engine, LocalEngine
from splat_cli.engine.process import device_environments
from splat_cli.terminal.interrupt import Interrupted, deferred_interrupt

__all__ = ["INTERRUPTED", "Engine", "open_engine"]

INTERRUPTED = "Interrupted; run the same command again to continue with the rest"


@contextmanager
def open_engine(
    device: str, cluster: str | None = None, say: Callable[[str], None] = lambda line: None
) -> Iterator[Engine]:
    """Context with an engine for jobs on `device`: "auto", "cuda" or "cpu". All its jobs have ended afterwards.

    cluster: Dask cluster (see `connected_client`), by default only this machine. say: shows which job runs where. After
    Ctrl-C, SIGTERM or SIGHUP, raises Interrupted as soon as the running jobs have saved.
    """
    with ExitStack() as stack:
        check = stack.enter_context(deferred_interrupt())
        if device == "cuda" and (cluster is None or cluster.startswith("local:")):
            require_cuda()
        if cluster is None:
            engine: Engine = LocalEngine(device_environments(device), check, say)
        else:
            from splat_cli.engine.clusters import connected_client

            client = stack.enter_context(connected_client(cluster, device, say))
            from splat_cli.engine.dask_engine import DaskEngine

            engine = DaskEngine(client, device, check, say)
        stack.callback(engine.close)
        try:
            yield engine
        except KeyboardInterrupt as error:
            raise Interrupted(INTERRUPTED, error) from None
