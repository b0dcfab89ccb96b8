"""What is shown while something takes its time: a bar on a terminal, plain lines in a log."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TextIO

from tqdm import tqdm

_PLAIN_INTERVAL = 10.0


@dataclass(frozen=True)
class Progress:
    """Where training stands: steps done, splats in use, loss and PSNR (dB) of the last step's photograph."""

    step: int
    loss: float
    num_splats: int
    psnr: float | None = None


class Display:
    """Writes to `stream`, standard error by default."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr

    def say(self, line: str) -> None:
        """Prints a line, above the bar if there is one."""
        tqdm.write(line, file=self._stream)

    @contextmanager
    def counting(self, label: str, total: int) -> Iterator[Callable[[int], object]]:
        """Yields a function to call with the number of things just done, of `total`; silent off a terminal."""
        hidden = not self._stream.isatty()
        with tqdm(total=total, desc=label, file=self._stream, dynamic_ncols=True, leave=False, disable=hidden) as bar:
            yield bar.update

    @contextmanager
    def training(self, num_steps: int, first: int = 0) -> Iterator[Callable[[Progress], None]]:
        """Yields a function that shows Progress: step, loss, PSNR, splats, steps a second and time left.

        first: steps that were done before.
        """
        if not self._stream.isatty():
            yield _PlainLines(num_steps, first, self.say)
            return
        with tqdm(
            total=num_steps, initial=first, unit="step", file=self._stream, dynamic_ncols=True, smoothing=0.1
        ) as bar:

            def show(progress: Progress) -> None:
                bar.set_postfix_str(_facts(progress), refresh=False)
                bar.update(progress.step - bar.n)

            yield show


class _PlainLines:
    """A line every ten seconds, and one at the end."""

    def __init__(self, num_steps: int, first: int, say: Callable[[str], None]) -> None:
        self._num_steps = num_steps
        self._first = first
        self._say = say
        self._start = time.perf_counter()
        self._last = self._start - _PLAIN_INTERVAL

    def __call__(self, progress: Progress) -> None:
        now = time.perf_counter()
        if now - self._last < _PLAIN_INTERVAL and progress.step < self._num_steps:
            return
        self._last = now
        rate = (progress.step - self._first) / max(now - self._start, 1e-9)
        left = tqdm.format_interval((self._num_steps - progress.step) / max(rate, 1e-9))
        self._say(f"step {progress.step}/{self._num_steps}, {_facts(progress)}, {rate:.1f} step/s, {left} left")


def _facts(progress: Progress) -> str:
    psnr = "" if progress.psnr is None else f"PSNR {progress.psnr:.2f}, "
    return f"loss {progress.loss:.4f}, {psnr}{progress.num_splats:,} splats"
