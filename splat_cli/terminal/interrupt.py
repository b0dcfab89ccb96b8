"""SIGINT (Ctrl-C), SIGTERM and SIGHUP raise KeyboardInterrupt; during training, only between two steps."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from splat_cli.errors import SplatError

_HANGUP: int | None = getattr(signal, "SIGHUP", None)
"""The terminal was closed, or its connection was lost; Windows lacks this signal."""
_ENDING = (signal.SIGTERM, *([] if _HANGUP is None else [_HANGUP]))
ENDING_SIGNALS = (signal.SIGINT, *_ENDING)
"""All signals that ask a program to end."""


class Terminated(KeyboardInterrupt):
    """Raised for SIGTERM or SIGHUP, as Python raises KeyboardInterrupt for SIGINT."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class Interrupted(SplatError):
    """The user stopped the program; results so far are saved."""

    exit_code = 130

    def __init__(self, message: str, cause: BaseException | None = None) -> None:
        super().__init__(message)
        self.exit_code = interrupt_code(cause)


def interrupt_code(cause: BaseException | None) -> int:
    """Exit code of an interrupted program: 128 and the signal's number, 130, 143 or 129."""
    if isinstance(cause, Interrupted):
        return cause.exit_code
    return 128 + (cause.number if isinstance(cause, Terminated) else signal.SIGINT)


def raise_on_signals() -> None:
    """Make the first SIGTERM or SIGHUP raise Terminated; a second SIGTERM ends the program.

    If SIGHUP was ignored, as under `nohup`, it stays ignored. A second SIGHUP is ignored: shell and terminal may both
    send one.
    """

    def terminate(number: int, frame: FrameType | None) -> None:
        _disarm(number)
        raise Terminated(number)

    for number in _ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, terminate)


def _disarm(number: int) -> None:
    signal.signal(number, signal.SIG_IGN if number == _HANGUP else signal.SIG_DFL)


@contextmanager
def kept_signal_handlers() -> Iterator[None]:
    """Context that restores signal handlers at its end, for example after the import of a library.

    Also restores handlers that a C library replaces unnoticed by Python. Outside the main thread, nothing is restored.
    """
    previous = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in previous.items():
                if handler is not None:  # not installed by Python
                    signal.signal(number, handler)


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], None]]:
    """Defers the first SIGINT, SIGTERM or SIGHUP in the context until the yielded function is called.

    That call raises KeyboardInterrupt or Terminated. A second signal acts at once, except SIGHUP. Ignored signals stay
    ignored. Outside the main thread, where signals cannot be caught, nothing is deferred.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    previous = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    caught = [number for number, handler in previous.items() if handler != signal.SIG_IGN]
    received: list[int] = []

    def restore() -> None:
        for number in caught:
            signal.signal(number, previous[number])
        if received and received[0] == _HANGUP:
            _disarm(received[0])

    def remember(number: int, frame: FrameType | None) -> None:
        received.append(number)
        restore()

    def check() -> None:
        if received:
            raise KeyboardInterrupt if received[0] == signal.SIGINT else Terminated(received[0])

    for number in caught:
        signal.signal(number, remember)
    try:
        yield check
    finally:
        restore()
