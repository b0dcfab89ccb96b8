"""Ctrl-C and SIGTERM during training: the step is finished and everything is saved before the program ends."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from splat_cli.errors import SplatError

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(SplatError):
    """The user stopped the program; what was done so far is saved."""

    exit_code = 130


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], None]]:
    """Inside, the first SIGINT or SIGTERM only acts where the yielded function is called: it raises KeyboardInterrupt.

    A second one acts at once. Outside the main thread, where signals cannot be caught, nothing is deferred.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    previous = {number: signal.getsignal(number) for number in _SIGNALS}
    asked = False

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    def remember(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        restore()

    def check() -> None:
        if asked:
            raise KeyboardInterrupt

    for number in _SIGNALS:
        signal.signal(number, remember)
    try:
        yield check
    finally:
        restore()
