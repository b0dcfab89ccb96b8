"""Checkpoint schedule: when they are due, background writing, removal of old ones."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from splat_cli.config import TrainConfig
from splat_cli.device import Backend
from splat_cli.errors import DiskError, FormatError, OutOfMemory, SplatError
from splat_cli.io.files import entries, require_space
from splat_cli.io.folder_lock import FolderLost, require_held
from splat_cli.run.checkpoints.file import Checkpoint, read_checkpoint, write_checkpoint
from splat_cli.run.checkpoints.state import capture_state, checkpoint_bytes
from splat_cli.train.trainer import Trainer

_DAMAGED = ".unreadable"
"""Added to the name of a damaged checkpoint."""


class Checkpointer:
    """Writes checkpoints of a trainer to `folder`/step_N.npz; write errors are warnings, and training continues.

    unsaved: returns the steps up to a given one without saved splats or scores; their checkpoints are kept.
    """

    def __init__(
        self,
        folder: Path,
        config: TrainConfig,
        backend: Backend,
        warn: Callable[[str], None],
        unsaved: Callable[[int], Sequence[int]],
    ) -> None:
        self.folder, self.config, self.backend, self.warn, self.unsaved = folder, config, backend, warn, unsaved
        self._thread: threading.Thread | None = None
        self._failure: SplatError | None = None
        self._last_step, self._last_time = 0, time.monotonic()

    def start_from(self, step: int) -> None:
        """Start the schedule at `step`; its state is on disk."""
        self._last_step, self._last_time = step, time.monotonic()

    def save_if_due(self, trainer: Trainer, seconds: float) -> None:
        """Save if the settings require it and the previous checkpoint has been written."""
        if self.config.keep and self._due(trainer.step) and not (self._thread and self._thread.is_alive()):
            self.save(trainer, seconds)

    def save(self, trainer: Trainer, seconds: float) -> None:
        """Copy the state now and write it in the background; `finish` waits for it. seconds: training time so far."""
        self.finish()
        if self.config.keep == 0 or (self._last_step == trainer.step and self._path(trainer.step).exists()):
            return
        self._last_step, self._last_time = trainer.step, time.monotonic()
        try:
            splats = trainer.model.splats
            require_space(self.folder, checkpoint_bytes(trainer.num_splats, len(splats.params), splats.num_features))
        except SplatError as error:
            self._warn_of(error)
            return
        checkpoint = capture_state(trainer)
        checkpoint.metadata["seconds"] = seconds
        self._thread = threading.Thread(target=self._write, args=(checkpoint,), daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Wait for the last checkpoint to be written; warn if that failed. FolderLost."""
        if self._thread and self._thread.is_alive():  # not if a second signal came while it was started
            self._thread.join()
        self._thread = None
        failure, self._failure = self._failure, None
        if isinstance(failure, FolderLost):
            raise failure
        if failure:
            self._warn_of(failure)

    def _due(self, step: int) -> bool:
        every, minutes = self.config.checkpoint_every, self.config.checkpoint_minutes
        by_steps = every > 0 and step - self._last_step >= every
        return by_steps or (minutes > 0 and time.monotonic() - self._last_time >= 60 * minutes)

    def _write(self, checkpoint: Checkpoint) -> None:
        try:
            checkpoint.arrays = {name: self.backend.download(array) for name, array in checkpoint.arrays.items()}
            write_checkpoint(self._path(checkpoint.step), checkpoint)
            self._remove_older(checkpoint.step)
        except SplatError as error:
            self._failure = error
        except MemoryError as error:
            self._failure = OutOfMemory(f"{self._path(checkpoint.step)} was not written: out of memory ({error})")

    def _remove_older(self, step: int) -> None:
        needed = [self._path(unsaved) for unsaved in self.unsaved(step)]
        for path in checkpoint_paths(self.folder)[self.config.keep :]:
            if path in needed:
                continue
            require_held(path)
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise DiskError(f"{path} cannot be removed: {error.strerror}; check the disk") from error

    def _path(self, step: int) -> Path:
        return checkpoint_path(self.folder, step)

    def _warn_of(self, error: SplatError) -> None:
        self.warn(f"{error}; training continues, older checkpoints are unchanged")


def checkpoint_path(folder: Path, step: int) -> Path:
    """Path of the checkpoint after `step` steps."""
    return folder / f"step_{step}.npz"


def checkpoint_paths(folder: Path) -> list[Path]:
    """Paths of the checkpoints in a folder, newest first. UnreadableError if the folder cannot be read."""
    found = ((re.fullmatch(r"step_(\d+)\.npz", path.name), path) for path in entries(folder))
    steps = [(int(match[1]), path) for match, path in found if match and (path.is_file() or path.is_dir())]  # no pipes
    return [path for _, path in sorted(steps, reverse=True)]


def newest_checkpoint(folder: Path, warn: Callable[[str], None]) -> Checkpoint | None:
    """The newest undamaged checkpoint; None if none was saved.

    Warns about damaged ones and renames them to FILE.unreadable. FormatError if all are damaged, including any that
    were renamed earlier. UsageError and UnreadableError as in `read_checkpoint`: that checkpoint is not damaged, so it
    keeps its name. No older one is used, because that would lose steps.
    """
    reason = ""
    for path in checkpoint_paths(folder):
        try:
            return read_checkpoint(path)
        except FormatError as error:
            reason = f", the last because {error}"
            warn(f"{error}; trying the one before")
            require_held(path)
            with suppress(OSError):
                path.rename(path.with_name(path.name + _DAMAGED))
    if reason or any(path.name.endswith(_DAMAGED) for path in entries(folder)):
        raise FormatError(
            f"no checkpoint of the run can be read{reason}: restore one in {folder}, or start a new run, from saved "
            "splats with --init-from"
        )
    return None
