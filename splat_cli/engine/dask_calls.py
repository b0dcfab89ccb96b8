"""Calls to workers through a Dask client, and the end of tasks, for the engine and for ranks."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from distributed import CancelledError, Client, Future

from splat_cli import __version__
from splat_cli.engine.dask_worker import still_running
from splat_cli.engine.process import SAVING
from splat_cli.errors import SplatError, UsageError

_MARGIN = 10.0  # seconds for a worker to see that its job is dropped, and that its process has ended
_ANSWER = 5.0  # seconds after which a worker without an answer counts as lost
_POLL = 0.2  # seconds


class SchedulerLost(SplatError):
    """The connection to the scheduler is lost."""

    def __init__(self, advice: str = "; run the same command again to continue with the rest") -> None:
        super().__init__(f"the connection to the Dask scheduler is lost{advice}")


def result_of(future: Future) -> Any:
    """The result of a task. UsageError if its worker lacks this program, SchedulerLost if the connection is lost."""
    try:
        return future.result()
    except ImportError as error:
        raise lacks_program(error) from None
    except CancelledError:
        raise SchedulerLost from None


def lacks_program(error: ImportError) -> UsageError:
    """The error for a worker without this version of the program."""
    return UsageError(f"a worker lacks splat {__version__} ({error}): install it on all machines of the cluster")


def drop(client: Client, futures: Sequence[Future]) -> None:
    """Cancel tasks, and wait until they have saved: a cancelled task runs until its function returns."""
    left = [future for future in futures if not future.done()]
    if not left or client.status != "running":
        return
    keys = {future.key for future in left}
    with suppress(OSError):  # the connection is lost: workers then end their tasks
        client.cancel(left)
        end = time.monotonic() + SAVING + _MARGIN
        while time.monotonic() < end:
            if True not in ask_workers(client, list(client.nthreads()), _ANSWER, still_running, keys).values():
                return
            time.sleep(_POLL)


def ask_workers(
    client: Client, workers: Sequence[str], patience: float, function: Callable[..., Any], *arguments: Any
) -> dict[str, Any]:
    """The result of a call on each worker, or its exception; the call is concurrent with the worker's tasks.

    TimeoutError for a worker that does not answer within `patience` seconds. `Client.run` alone would wait for it and
    withhold the other answers.
    """
    call = remote_call(function, *arguments)

    def ask(worker: str) -> Any:
        try:
            return client.run(*call, workers=[worker], on_error="return", callback_timeout=patience)[worker]
        except OSError as error:  # TimeoutError, too
            return error

    with ThreadPoolExecutor(max(len(workers), 1)) as pool:
        return dict(zip(workers, pool.map(ask, workers), strict=True))


def remote_call(function: Callable[..., Any], *arguments: Any) -> tuple[Callable[[bytes], Any], bytes]:
    """A remote call: (function, argument) to submit. It raises ImportError on a worker without this version of splat.

    The arguments are bytes, because the scheduler unpickles them and may lack this program. The function is local, so
    that it is pickled as code and not by its name.
    """

    version = __version__

    def call(work: bytes) -> Any:
        import pickle
        import platform

        try:
            import splat_cli

            if splat_cli.__version__ != version:
                raise ImportError(f"it has {splat_cli.__version__}")
            function, arguments = pickle.loads(work)
        except Exception as error:
            raise ImportError(f"{platform.node()}: {error}") from None
        return function(*arguments)

    return call, pickle.dumps((function, arguments))
