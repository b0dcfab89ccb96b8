"""Progress and messages on standard error: a bar on terminals, plain lines in logs."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TextIO, cast

from tqdm import tqdm

from splat_cli.terminal.lines import can_overwrite, wrapped

_MIN_BAR = 6  # columns
_USUAL_COLUMNS = 80  # if the terminal does not report its width


class ProgressBar(tqdm):  # type: ignore[misc]
    """tqdm with label, percentage, bar, count, time left and `fields`, the most important first."""

    fields: tuple[str, ...] = ()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"dynamic_ncols": True, "smoothing": 0.1, **options})

    def __str__(self) -> str:
        """The line. One column stays free, because terminals break full lines."""
        state = self.format_dict
        columns = (state["ncols"] or _USUAL_COLUMNS) - 1
        layout = bar_layout(columns, state["prefix"], state["n"], state["total"], (_time(state), *self.fields))
        return str(self.format_meter(**{**state, "prefix": "", "ncols": columns, "bar_format": layout}))


def bar_layout(columns: int, label: str, done: int, total: int, fields: tuple[str, ...]) -> str:
    """tqdm's bar_format for a line of at most `columns`: label and count always, then the fields that fit."""
    head = f"{label} " if label else ""
    tail = f" {done}/{total}"
    bar = "{percentage:3.0f}%|{bar}|"
    room = columns - len(head) - len(tail) - len("100%||") - _MIN_BAR
    if room < 0:
        bar, room = "{percentage:3.0f}%", columns - len(head) - len(tail) - len("100%")
    for field in fields:
        room -= len(field) + 2
        if room < 0:
            break
        tail += f", {field}"
    return head.replace("{", "{{").replace("}", "}}") + bar + tail


def _time(state: dict[str, Any]) -> str:
    """The time left; at the end, the time taken."""
    done, total, rate = state["n"], state["total"], state["rate"]
    if done >= total:
        return f"took {tqdm.format_interval(state['elapsed'])}"
    rate = rate or (done - state["initial"]) / max(state["elapsed"], 1e-9)
    return f"{tqdm.format_interval((total - done) / rate)} left" if rate else "?"


Counting = Callable[[str, int], AbstractContextManager[Callable[[int], object]]]
"""`Display.counting`: (label, total) -> context of a function to call with the number of things just done."""
_PLAIN_INTERVAL = 10.0
_SHOWN = 5  # lines of a list in a message


@dataclass(frozen=True)
class Progress:
    """Progress of training: steps done, number of splats, loss and PSNR (dB) of the last step's photograph."""

    step: int
    loss: float
    num_splats: int
    psnr: float | None = None


class Level(IntEnum):
    """Verbosity: warnings; warnings and messages; also details."""

    QUIET = 0
    NORMAL = 1
    VERBOSE = 2


class Display:
    """Writes to `stream`, by default standard error; `warnings`: all warnings so far.

    bar: show progress as a bar instead of plain lines; by default if the stream is a terminal that can overwrite lines.
    """

    def __init__(self, stream: TextIO | None = None, level: Level = Level.NORMAL, bar: bool | None = None) -> None:
        self._stream = cast(TextIO, _ErrorTolerantStream(stream or sys.stderr))
        self._level = level
        self._bar = can_overwrite(self._stream) if bar is None else bar
        self.warnings: list[str] = []

    def say(self, line: str) -> None:
        """Print a line, above the bar if there is one."""
        self._print(line, Level.NORMAL)

    def warn(self, text: str) -> None:
        """Print a warning, at every level."""
        self.warnings.append(text)
        self._print(f"Warning: {text}", Level.QUIET)

    def detail(self, line: str) -> None:
        """Print a line at the level of details only."""
        self._print(line, Level.VERBOSE)

    def _print(self, line: str, level: Level) -> None:
        if self._level >= level:
            tqdm.write(wrapped(line, self._stream), file=self._stream)

    @contextmanager
    def counting(self, label: str, total: int) -> Iterator[Callable[[int], object]]:
        """Yield a function that takes the number of items just done, out of `total`; without a bar, prints lines."""
        if not self._bar and self._level > Level.QUIET:
            yield _PlainCount(label, total, self.say)
            return
        hidden = self._level == Level.QUIET
        with ProgressBar(total=total, desc=label, file=self._stream, leave=False, disable=hidden) as bar:
            yield bar.update

    @contextmanager
    def explaining(self, line: str, seconds: float = 2.0) -> Iterator[None]:
        """Print `line` if the block takes longer than `seconds`: without it, the program seems to hang."""
        timer = threading.Timer(seconds, self.say, [line])
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    @contextmanager
    def training(self, num_steps: int, first: int = 0) -> Iterator[Callable[[Progress], None]]:
        """Yield a function that displays Progress: step, loss, PSNR, splats, steps per second and time left.

        first: number of steps already done.
        """
        if self._level == Level.QUIET:
            yield lambda progress: None
            return
        if not self._bar:
            yield _PlainLines(num_steps, self.say)
            return
        with ProgressBar(total=num_steps, initial=first, file=self._stream) as bar:

            def show(progress: Progress) -> None:
                bar.fields = _bar_fields(progress)
                bar.update(progress.step - bar.n)

            yield show


class _ErrorTolerantStream:
    """A stream that ignores failures to write: a closed terminal, a pipe that nobody reads, a full disk."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _PlainLines:
    """A line every ten seconds, and one at the end."""

    def __init__(self, num_steps: int, say: Callable[[str], None]) -> None:
        self._num_steps = num_steps
        self._say = say
        self._first: tuple[int, float] | None = None  # step and time, after kernels are compiled
        self._last = 0.0

    def __call__(self, progress: Progress) -> None:
        now = time.perf_counter()
        if self._first and now - self._last < _PLAIN_INTERVAL and progress.step < self._num_steps:
            return
        self._last = now
        self._say(f"step {progress.step}/{self._num_steps}, {_status(progress)}{self._speed(progress.step, now)}")

    def _speed(self, step: int, now: float) -> str:
        """Steps per second since the first Progress, and the time left, if any; empty at the first."""
        if self._first is None:
            self._first = step, now
            return ""
        rate = (step - self._first[0]) / max(now - self._first[1], 1e-9)
        return f", {rate:.1f} step/s{_time_left((self._num_steps - step) / max(rate, 1e-9))}"


class _PlainCount:
    """A line every ten seconds; shorter work prints nothing."""

    def __init__(self, label: str, total: int, say: Callable[[str], None]) -> None:
        self._label, self._total, self._say = label, total, say
        self._done = 0
        self._begun = self._last = time.perf_counter()

    def __call__(self, count: int) -> None:
        self._done += count
        now = time.perf_counter()
        if now - self._last >= _PLAIN_INTERVAL and self._done:
            self._last = now
            left = _time_left((now - self._begun) / self._done * (self._total - self._done))
            self._say(f"{self._label}: {self._done:,} of {self._total:,}{left}")


def _time_left(seconds: float) -> str:
    """Text after a comma; empty at the end."""
    return f", {tqdm.format_interval(seconds)} left" if seconds > 0 else ""


def first_of(lines: Sequence[str], count: int = _SHOWN, separator: str = "; ") -> str:
    """The first `count` lines, joined, and the number of further lines."""
    more = len(lines) - count
    return separator.join(lines[:count]) + f" and {more:,} more" * (more > 0)


def left_out(lines: Sequence[str], what: str) -> str:
    """A warning: "left out 2 photographs: a.jpg: ...; b.jpg: ...". lines: one per omitted item; what: singular noun."""
    return f"left out {len(lines):,} {what}{'s' * (len(lines) != 1)}: {first_of(lines)}"


def _status(progress: Progress) -> str:
    psnr = "" if progress.psnr is None else f"train PSNR {progress.psnr:.2f}, "
    return f"loss {progress.loss:.4f}, {psnr}{progress.num_splats:,} splats"


def _bar_fields(progress: Progress) -> tuple[str, ...]:
    """The fields of _status, the most important first."""
    psnr = () if progress.psnr is None else (f"train PSNR {progress.psnr:.2f}",)
    return *psnr, f"{progress.num_splats:,} splats", f"loss {progress.loss:.4f}"
