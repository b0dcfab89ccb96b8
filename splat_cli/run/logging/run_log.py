"""The training log: progress and warnings in train.jsonl, and TensorBoard events."""

import dataclasses
import time
from collections.abc import Collection, Mapping
from typing import Any

from splat_cli.io.files import write_error
from splat_cli.run.logging.tensorboard_logger import TensorBoardLogger
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.terminal.console import Display, Progress
from splat_cli.train.trainer import Trainer

_INTERVAL = 1.0  # seconds between two lines


class RunLog:
    """Writes the training log; on a full disk, lines are lost and training continues."""

    def __init__(self, run: RunDir, display: Display) -> None:
        self.run, self.display = run, display
        self.board = TensorBoardLogger(run.path / "tensorboard", display.warn)
        self._last_time = 0.0
        self._last_step, self._last_seconds, self._steps_per_second = 0, 0.0, 0.0
        self._told: set[str] = set()
        self._num_logged = 0

    def start_from(self, step: int, seconds: float) -> None:
        """Log from `step` on. Writes the warnings so far, except those written by earlier sessions."""
        self._last_step, self._last_seconds = step, seconds
        written = {line["warning"] for line in self.run.log.entries() if "warning" in line}
        self._add_warnings(step, written)

    def record(self, trainer: Trainer, progress: Progress, seconds: float, last_step: int) -> None:
        """Write one line per second, and one for the last step. seconds: training time so far."""
        for notice in trainer.notices:
            self.display.warn(notice)
        trainer.notices.clear()
        self._add_warnings(trainer.step)
        now = time.perf_counter()
        if now - self._last_time < _INTERVAL and progress.step != last_step:
            return
        self._last_time = now
        bad = {name: count for name, count in trainer.nonfinite_counts.items() if count}
        if bad:
            words = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in bad.items())
            self._warn_once("numbers", f"non-finite numbers: {words}; the log counts them")
        entry = {
            **dataclasses.asdict(progress),
            "seconds": round(seconds, 3),
            "steps_per_second": self._speed(progress.step, seconds),
            "memory_bytes": trainer.backend.peak_bytes,
            **bad,
        }
        self._add(entry)
        self.board.figures(entry)

    def close(self, step: int, phases: Mapping[str, float]) -> None:
        """Write the last line of a session: seconds by phase, including reading of the scene."""
        self._add_warnings(step)
        self._add({"step": step, "phases": phases})
        self.board.close()

    def _speed(self, step: int, seconds: float) -> float:
        """Steps per second since the last line, or over a longer interval if less than half a second has passed."""
        if seconds - self._last_seconds > _INTERVAL / 2 or self._steps_per_second == 0:
            self._steps_per_second = (step - self._last_step) / max(seconds - self._last_seconds, 1e-6)
            self._last_step, self._last_seconds = step, seconds
        return round(self._steps_per_second, 3)

    def _add_warnings(self, step: int, written: Collection[str] = ()) -> None:
        """Write a line for each warning displayed since the last call, and not yet `written`."""
        for text in dict.fromkeys(self.display.warnings[self._num_logged :]):
            if text not in written:
                self._add({"step": step, "warning": text})
        self._num_logged = len(self.display.warnings)

    def _add(self, entry: Mapping[str, Any]) -> None:
        try:
            self.run.log.append(entry)
        except OSError as error:
            self._warn_once("disk", f"{write_error(self.run.log.path, error)}; training continues")

    def _warn_once(self, subject: str, text: str) -> None:
        if subject not in self._told:
            self.display.warn(text)
        self._told.add(subject)
