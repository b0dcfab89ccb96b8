"""The engine that the user asks for."""

from collections.abc import Iterator
from contextlib import contextmanager

from splat_cli.engine.local import LocalEngine, device_environments
from splat_cli.engine.protocol import Engine
from splat_cli.interrupt import Interrupted, deferred_interrupt


@contextmanager
def open_engine(device: str) -> Iterator[Engine]:
    """An engine for jobs on `device`: "auto", "cuda" or "cpu". All of its jobs have ended afterwards.

    After Ctrl-C, SIGTERM or SIGHUP, Interrupted as soon as the running jobs have saved.
    """
    with deferred_interrupt() as check:
        engine = LocalEngine(device_environments(device), check)
        try:
            yield engine
        except KeyboardInterrupt as error:
            engine.close()
            raise Interrupted("Interrupted; the same command again goes on with what is left", error) from None
        finally:
            engine.close()
