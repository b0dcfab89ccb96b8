"""Ctrl-C during training: the step is finished and the splats are saved before the program ends."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from splat_cli.errors import SplatError


class Interrupted(SplatError):
    """The user stopped the program; what was done so far is saved."""

    exit_code = 130


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], None]]:
    """Inside, the first Ctrl-C only takes effect where the yielded function is called: it raises KeyboardInterrupt.

    A second one acts at once. Outside the main thread, where signals cannot be caught, nothing is deferred.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    previous = signal.getsignal(signal.SIGINT)
    asked = False

    def remember(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, previous)

    def check() -> None:
        if asked:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, remember)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, previous)
