"""SIGINT (Ctrl-C) and SIGTERM: both raise KeyboardInterrupt, during training between two steps."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from splat_cli.errors import SplatError

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Terminated(KeyboardInterrupt):
    """SIGTERM, in place of the KeyboardInterrupt that Python raises for SIGINT."""


class Interrupted(SplatError):
    """The user stopped the program; what was done so far is saved."""

    exit_code = 130

    def __init__(self, message: str, cause: BaseException | None = None) -> None:
        super().__init__(message)
        self.exit_code = interrupt_code(cause)


def interrupt_code(cause: BaseException | None) -> int:
    """Exit code of an interrupted program: 128 and the signal's number, 130 or 143."""
    return 128 + (signal.SIGTERM if isinstance(cause, Terminated) else signal.SIGINT)


def raise_on_sigterm() -> None:
    """From now on the first SIGTERM raises Terminated; a second one ends the program."""

    def terminate(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise Terminated

    signal.signal(signal.SIGTERM, terminate)


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], None]]:
    """Inside, the first SIGINT or SIGTERM only acts where the yielded function is called.

    There it raises KeyboardInterrupt or Terminated. A second one acts at once. Outside the main thread, where signals
    cannot be caught, nothing is deferred.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    previous = {number: signal.getsignal(number) for number in _SIGNALS}
    received: list[int] = []

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    def remember(number: int, frame: FrameType | None) -> None:
        received.append(number)
        restore()

    def check() -> None:
        if received:
            raise Terminated if received[0] == signal.SIGTERM else KeyboardInterrupt

    for number in _SIGNALS:
        signal.signal(number, remember)
    try:
        yield check
    finally:
        restore()
