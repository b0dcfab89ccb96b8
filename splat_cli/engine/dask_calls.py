"""Calls to workers through a Dask client, for the engine and for ranks."""

from __future__ import annotations

import dataclasses
import pickle
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from distributed import CancelledError, Client, Future, Lock

from splat_cli import __version__
from splat_cli.engine.dask_worker import num_running
from splat_cli.engine.job import Job
from splat_cli.engine.process import SAVING
from splat_cli.errors import SplatError, UsageError

_MARGIN = 10.0  # seconds for a worker to see that its job is dropped, and that its process has ended
_ANSWER = 5.0  # seconds after which a worker without an answer counts as lost
_POLL = 0.2  # seconds
_LOCK = "splat-turn"


class SchedulerLost(SplatError):
    """The connection to the scheduler is lost."""

    def __init__(self, advice: str = "; run the same command again to continue with the rest") -> None:
        super().__init__(f"the connection to the Dask scheduler is lost{advice}")


class Turn:
    """The lock that a command holds while it takes free workers, so that no other command takes them.

    Dask releases the lock of a command that was killed after 30 s.
    """

    def __init__(self, client: Client) -> None:
        self._lock, self._is_held = Lock(_LOCK, scheduler_rpc=client.scheduler, loop=client.loop), False

    def take(self) -> bool:
        """Whether this command holds the lock; waits for it briefly. OSError if the connection is lost."""
        self._is_held = self._is_held or self._lock.acquire(timeout=_POLL)
        return self._is_held

    def give_back(self) -> None:
        """Release the lock, if this command holds it."""
        if self._is_held:
            self._is_held = False
            self._lock.release()


def visible_inputs(job: Job) -> Job:
    """The job with its existing inputs and its log: a worker that shares the folder sees them. OSError."""
    (job.folder / job.log).touch()
    return dataclasses.replace(job, inputs=tuple(path for path in job.inputs if (job.folder / path).exists()))


def result_of(future: Future) -> Any:
    """The result of a task. UsageError if its worker lacks this program, SchedulerLost if the connection is lost."""
    try:
        return future.result()
    except ImportError as error:
        raise lacks_program(error) from None
    except CancelledError:
        raise SchedulerLost from None


def lacks_program(error: ImportError) -> UsageError:
    """The error for a worker that cannot import this program."""
    return UsageError(f"a worker lacks splat {__version__} ({error}): install it on all machines of the cluster")


def drop(client: Client, futures: Sequence[Future], topic: str) -> None:
    """Cancel tasks, and wait until they have saved. topic: topic of their events, see `num_running`."""
    left = [future for future in futures if not future.done()]
    if not left or client.status != "running":
        return
    with suppress(OSError):  # the connection is lost: workers then end their tasks
        client.cancel(left)
        end = time.monotonic() + SAVING + _MARGIN
        while time.monotonic() < end:
            answers = ask_workers(client, list(client.nthreads()), _ANSWER, num_running, topic)
            if not any(num for num in answers.values() if isinstance(num, int)):
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
    """A remote call: (function, argument) to submit. The call raises ImportError if the worker lacks this program.

    The arguments are bytes, because the scheduler unpickles them and may lack this program. The function is local, so
    that it is pickled as code and not by its name.
    """

    def call(work: bytes) -> Any:
        import pickle
        import platform

        try:
            function, arguments = pickle.loads(work)
        except Exception as error:
            raise ImportError(f"{platform.node()}: {error}") from None
        return function(*arguments)

    return call, pickle.dumps((function, arguments))
