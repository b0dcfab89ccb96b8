"""train.jsonl, and the warnings that go with it: each is told once and logged always."""

import dataclasses
import time
from typing import Any

from splat_cli.files import write_error
from splat_cli.train.progress import Display, Progress
from splat_cli.train.run_folder import RunFolder
from splat_cli.train.trainer import Trainer

_INTERVAL = 1.0  # seconds between two lines


class Logbook:
    """Writes a run's log; a disk that is full loses lines, not the run."""

    def __init__(self, run: RunFolder, display: Display) -> None:
        self.run, self.display = run, display
        self._last = 0.0
        self._told: set[str] = set()

    def note(self, trainer: Trainer, progress: Progress, seconds: float, last_step: int) -> None:
        """A line a second and one for the last step; `seconds` of training so far."""
        for notice in trainer.notices:
            self._warn("notice", notice)
            self._add({"step": trainer.step, "notice": notice})
        trainer.notices.clear()
        now = time.perf_counter()
        if now - self._last < _INTERVAL and progress.step != last_step:
            return
        self._last = now
        bad = {name: count for name, count in trainer.bad_numbers.items() if count}
        if bad:
            words = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in bad.items())
            self._warn("numbers", f"Warning: numbers that are not finite: {words}; the log counts them")
        self._add({**dataclasses.asdict(progress), "seconds": round(seconds, 3), **bad})

    def _add(self, entry: dict[str, Any]) -> None:
        try:
            self.run.log(entry)
        except OSError as error:
            self._warn("disk", f"Warning: {write_error(self.run.log_path, error)}; training goes on")

    def _warn(self, subject: str, line: str) -> None:
        if subject not in self._told:
            self.display.say(line)
        self._told.add(subject)
