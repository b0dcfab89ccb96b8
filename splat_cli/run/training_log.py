"""The training log: progress and warnings in train.jsonl, and TensorBoard events."""

from __future__ import annotations

import dataclasses
import importlib.util
import io
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from splat_cli.errors import UsageError, is_utf8
from splat_cli.eval.metrics import Score
from splat_cli.gaussians.arrays import SplatArrays, opacities
from splat_cli.io.files import write_error
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.terminal.console import Display, Progress
from splat_cli.train.trainer import Trainer

_FLUSH_SECONDS = 5
_NUM_VIEWS, _MAX_SIDE = 8, 800  # renders per evaluation, and their longer side in pixels
_FIGURES = ("loss", "psnr", "num_splats", "steps_per_second", "memory_bytes")


def require_tensorboard(folder: Path) -> None:
    """UsageError if the package is missing, or if the folder's path is not UTF-8."""
    if importlib.util.find_spec("tensorboard") is None:
        raise UsageError("--tensorboard needs its package: pip install 'splat-cli[tensorboard]'")
    if not is_utf8(str(folder)):
        raise UsageError(f"--tensorboard needs a path in UTF-8, but {folder} is not: choose another --out")


class TensorBoardLogger:
    """Writes events to `folder` between `open` and `close`; otherwise does nothing.

    A write error disables it, with one call of `warn`.
    """

    def __init__(self, folder: Path, warn: Callable[[str], None]) -> None:
        self.folder, self.warn = folder, warn
        self._writer: Any = None

    def open(self, step: int) -> None:
        """Start writing; invalidates events after `step` of an interrupted session."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._writer = EventFileWriter(str(self.folder), flush_secs=_FLUSH_SECONDS)
        self._attempt(
            lambda: self._writer.add_event(Event(step=step + 1, session_log=SessionLog(status=SessionLog.START)))
        )

    def figures(self, entry: Mapping[str, Any]) -> None:
        """Write the scalars of an entry of the training log."""
        for name in _FIGURES:
            if entry.get(name) is not None:
                self._scalar(entry["step"], f"train/{name}", entry[name])

    def scores(self, step: int, score: Score) -> None:
        """Write the scores on the held-out photographs."""
        for name, value in score.to_dict().items():
            self._scalar(step, f"held out/{name}", value)

    def render(self, step: int, number: int, name: str, pixels: np.ndarray) -> None:
        """Write the render of held-out view `number`, uint8 [H, W, 3]; only the first few are logged."""
        if self._writer and number < _NUM_VIEWS:
            from tensorboard.compat.proto.summary_pb2 import Summary

            picture, memory = Image.fromarray(pixels), io.BytesIO()
            picture.thumbnail((_MAX_SIDE, _MAX_SIDE))
            picture.save(memory, "JPEG", quality=85)
            image = Summary.Image(
                height=picture.height, width=picture.width, colorspace=3, encoded_image_string=memory.getvalue()
            )
            self._add(step, Summary(value=[Summary.Value(tag=f"held out/{name}", image=image)]))

    def splats(self, step: int, splats: SplatArrays) -> None:
        """Write histograms of opacities and of sizes (natural logarithms)."""
        if self._writer and len(splats):
            from tensorboard.plugins.histogram.summary_v2 import histogram_pb

            self._add(step, histogram_pb("splats/opacity", opacities(splats)))
            self._add(step, histogram_pb("splats/log_scale", splats.log_scales))

    def close(self) -> None:
        """Flush and close the file."""
        if self._writer:
            self._attempt(self._writer.close)
        self._writer = None

    def _scalar(self, step: int, tag: str, value: float) -> None:
        if self._writer:
            from tensorboard.plugins.scalar.summary_v2 import scalar_pb

            self._add(step, scalar_pb(tag, value))

    def _add(self, step: int, summary: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._attempt(lambda: self._writer.add_event(Event(step=step, wall_time=time.time(), summary=summary)))

    def _attempt(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            self._writer = None
            self.warn(f"{write_error(self.folder, error)}; training continues without TensorBoard")


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
