"""Choice of the engine: this machine or a Dask cluster."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from splat_cli.device.cuda import require_cuda
from splat_cli.engine.local import LocalEngine, device_environments
from splat_cli.engine.protocol import Engine
from splat_cli.terminal.interrupt import Interrupted, deferred_interrupt


@contextmanager
def open_engine(
    device: str, cluster: str | None = None, say: Callable[[str], None] = lambda line: None
) -> Iterator[Engine]:
    """Context with an engine for jobs on `device`: "auto", "cuda" or "cpu". All of its jobs have ended afterwards.

    cluster: of Dask (see `connected_client`), by default this machine alone. say: shows which job runs where. After
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
