"""What is shown while training: a bar on a terminal, plain lines in a log."""

import sys
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TextIO

from tqdm import tqdm

_PLAIN_INTERVAL = 10.0


@dataclass(frozen=True)
class Progress:
    """Where training stands: steps done, loss and PSNR of the last step's view, splats in use."""

    step: int
    loss: float
    num_splats: int
    psnr: float


class TrainingDisplay:
    """Shows Progress on stderr: step, loss, PSNR, splats, steps a second, time left."""

    def __init__(self, num_steps: int, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._num_steps = num_steps
        self._bar: tqdm | None = None
        self._start = self._last_line = time.perf_counter()

    def __enter__(self) -> Self:
        self._start = time.perf_counter()
        self._last_line = self._start - _PLAIN_INTERVAL
        if self._stream.isatty():
            self._bar = tqdm(total=self._num_steps, unit="it", file=self._stream, dynamic_ncols=True, smoothing=0.1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def __call__(self, progress: Progress) -> None:
        facts = f"loss {progress.loss:.4f}, PSNR {progress.psnr:.2f}, {progress.num_splats:,} splats"
        if self._bar is not None:
            self._bar.set_postfix_str(facts, refresh=False)
            self._bar.update(progress.step - self._bar.n)
            return
        now = time.perf_counter()
        if now - self._last_line >= _PLAIN_INTERVAL or progress.step == self._num_steps:
            self._last_line = now
            self.say(f"step {progress.step}/{self._num_steps}, {facts}, {self._pace(progress.step, now)}")

    def say(self, line: str) -> None:
        """Prints a line without breaking the bar."""
        tqdm.write(line, file=self._stream)

    def _pace(self, step: int, now: float) -> str:
        rate = step / max(now - self._start, 1e-9)
        left = (self._num_steps - step) / max(rate, 1e-9)
        return f"{rate:.1f} it/s, {tqdm.format_interval(left)} left"
