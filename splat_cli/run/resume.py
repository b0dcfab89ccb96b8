"""Resumption of a run: its settings, checkpoint and changed options. checkpoints/state.py restores the state."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from splat_cli.config import SETTINGS, ResolvedConfig, TrainConfig
from splat_cli.config.presets import removed_settings
from splat_cli.device import Backend
from splat_cli.errors import UsageError, quoted
from splat_cli.ranks.protocol import FailedRankError, RankError
from splat_cli.run.checkpoints.checkpointer import checkpoint_path, checkpoint_paths, newest_checkpoint
from splat_cli.run.checkpoints.file import Checkpoint
from splat_cli.run.plan import with_whole_batches
from splat_cli.run.setup.training_data import warn_of_unused, with_fixed_paths
from splat_cli.run.storage.find_run import is_run
from splat_cli.run.storage.run_dir import RunDir
from splat_cli.terminal.console import Display
from splat_cli.terminal.interrupt import Interrupted

_SCORED = ("images", "max_size", "downscale", "masks")
"""Settings that may change in a run, and that change the pixels of held-out photographs."""


_OF_INITIAL_SPLATS = ("init_opacity", "init_scale")
"""Settings that no checkpoint depends on any more."""


class FinishedError(UsageError):
    """The run has nothing left to train or save."""


@dataclass(frozen=True)
class Resumption:
    """Scene, settings and checkpoint to continue from; None: from step 0."""

    scene: Path
    config: TrainConfig
    checkpoint: Checkpoint | None


def interrupted_run(folders: Iterable[Path], scene: Path, config: TrainConfig) -> Path | None:
    """The first of the folders that holds an unfinished run on the scene with these settings.

    Skips runs whose files are damaged or of another version: they cannot be continued.
    """
    wanted = with_fixed_paths(config, scene)
    for folder in filter(is_run, folders):
        with suppress(UsageError):
            if _is_interrupted(RunDir(folder), scene, wanted):
                return folder
    return None


def _is_interrupted(run: RunDir, scene: Path, wanted: TrainConfig) -> bool:
    same = not other_options(run, wanted)
    return same and not run.result() and run.provenance().get("scene") == str(scene.resolve())


def other_options(run: RunDir, wanted: TrainConfig) -> list[str]:
    """Options whose values in the run are not those of a new run with the settings `wanted` (`with_fixed_paths`)."""
    before = run.config()
    # earlier versions saved the default of coarse_levels
    planned = {name: getattr(before, name) for name in ("batch", "coarse_levels") if not getattr(wanted, name)}
    asked = dataclasses.replace(wanted, **planned)
    if wanted.steps is None and wanted.free_space is None:
        chosen = [name for name in run.trials().get("chosen", {}) if getattr(wanted, name) == SETTINGS[name].default]
        asked = dataclasses.replace(asked, **{name: getattr(before, name) for name in chosen})
    asked = with_whole_batches(asked, asked.steps or before.num_steps)
    return [declared.option for name, declared in SETTINGS.items() if getattr(before, name) != getattr(asked, name)]


def plan_resumption(run: RunDir, scene: Path | None, changes: dict[str, Any], display: Display) -> Resumption:
    """How to continue `run` with `changes` to its settings. scene: new path of the scene, if it has moved.

    FinishedError if nothing is left to do; UsageError if a setting cannot be changed, or if there are saved splats but
    no checkpoint. Damaged checkpoints are renamed; nothing else is written.
    """
    before, scene = run.config(), scene or run.scene_path()
    config = with_fixed_paths(dataclasses.replace(before, **changes), scene)
    changes = {name: getattr(config, name) for name in changes if getattr(config, name) != getattr(before, name)}
    _refuse_changes(run, config, changes)
    warn_of_unused(config, changes, display)
    for line in removed_settings(run.config_path):
        display.warn(line)
    for name in changes:
        declared = SETTINGS[name]
        display.say(
            f"Changed: {declared.option} {declared.show(getattr(before, name))} -> {declared.show(changes[name])}"
        )
    if config.eval and run.metrics() and (others := [SETTINGS[name].option for name in changes if name in _SCORED]):
        display.warn(f"{', '.join(others)} changes what is scored: earlier scores of {run.path} are for other pixels")
    done = run.result().get("steps", 0)
    if config.num_steps <= done and not _lacks_results(run, config):
        raise FinishedError(f"{run.path} is finished after {done} steps: give more --steps to continue")
    checkpoint = newest_checkpoint(run.checkpoints_path, display.warn)
    if checkpoint is None:
        if steps := run.saved_steps():
            raise UsageError(
                f"{run.path} has splats of step {steps[-1]} but no checkpoint to continue from: restore one, or start "
                f"a new run with --init-from {quoted(run.ply_path(steps[-1]))}"
            )
        display.say("No checkpoint was saved yet: starting from step 0")
    elif edited := _edited(before, checkpoint):
        raise UsageError(
            f"{run.config_path} was edited since step {checkpoint.step} ({', '.join(edited)}); this cannot change in a "
            "run that has begun: restore it, or start a new run"
        )
    elif checkpoint.step > config.num_steps:
        raise UsageError(f"{run.path} is already at step {checkpoint.step}: give more than {config.num_steps} --steps")
    elif "max_splats" in changes and (num := checkpoint.num_splats - checkpoint.num_frozen) > config.max_splats:
        display.warn(
            f"--max-splats {config.max_splats:,} is below the {num:,} splats of {run.path}: training neither "
            f"adds nor removes any; for fewer, `splat export {quoted(run.path)} OUT.ply --max-splats "
            f"{config.max_splats}`"
        )
    return Resumption(scene, config, checkpoint)


def _edited(config: TrainConfig, checkpoint: Checkpoint) -> list[str]:
    """Fixed settings of config.toml, except paths, that are not those of the checkpoint: "--seed 0 -> 5"."""
    earlier = checkpoint.metadata.get("settings")
    if not isinstance(earlier, dict):
        return []
    changes = []
    for name, declared in SETTINGS.items():
        now, before = getattr(config, name), earlier.get(name)
        is_path = declared.kind is str and not declared.choices
        if declared.fixed and not is_path and None not in (now, before) and now not in ("auto", before):
            changes.append(f"{declared.option} {declared.show(before)} -> {declared.show(now)}")
    return changes


def _lacks_results(run: RunDir, config: TrainConfig) -> bool:
    """Whether splats or scores are missing that can be computed from a checkpoint."""
    unsaved = run.unsaved_steps(config, config.num_steps)
    return any(checkpoint_path(run.checkpoints_path, step).is_file() for step in unsaved)


def _refuse_changes(run: RunDir, config: TrainConfig, changes: dict[str, Any]) -> None:
    fixed = [SETTINGS[name].option for name in changes if SETTINGS[name].fixed]
    if fixed:
        raise UsageError(f"{', '.join(fixed)} cannot change in a run that has begun: leave it out, or start a new run")
    if config.gpus > 1 and "appearance" in run.trials().get("chosen", {}):
        raise UsageError(
            f"--gpus {config.gpus} does not work with --appearance {config.appearance}, which the trial runs of "
            f"{run.path} chose: continue on one GPU"
        )


def changed_defaults(run: RunDir, requested: TrainConfig, config: ResolvedConfig, checkpoint: Checkpoint) -> list[str]:
    """Defaults that differed before the checkpoint, such as "--dropout 0.1 -> 0.3"; empty if settings were changed.

    Another version of this program may choose them otherwise, and the limit of splats depends on free memory.
    config: settings from now on.
    """
    earlier = checkpoint.metadata.get("settings")
    if run.config() != requested or not isinstance(earlier, dict):
        return []
    changes = []
    for name, declared in SETTINGS.items():
        now, before = getattr(config, name), earlier.get(name)
        if name not in _OF_INITIAL_SPLATS and isinstance(before, int | float | str) and before != now:
            changes.append(f"{declared.option} {declared.show(before)} -> {declared.show(now)}")
    return changes


class HasStep(Protocol):
    """The part of a checkpoint that restarts use."""

    step: int


T = TypeVar("T")
Start = TypeVar("Start", bound=HasStep)
MAX_RESTARTS = 3  # maximum without a new checkpoint in between


class Restarts(Generic[Start]):
    """Counts the restarts of a run. find: its newest checkpoint, or None. options: see `resume_advice`.

    first: the checkpoint from which it starts.
    """

    def __init__(
        self,
        run: RunDir,
        config: TrainConfig,
        first: Start | None,
        find: Callable[[], Start | None],
        display: Display,
        options: str = "",
    ) -> None:
        self.run, self.config, self.display, self.options = run, config, display, options
        self._find = find
        self._first = first
        self._last_step = first.step if first else 0
        self._count = 0

    def repeat(self, attempt: Callable[[Start | None], T], clean_up: Callable[[], object]) -> T:
        """The result of `attempt`; calls it again, from another checkpoint, after the loss of a rank.

        clean_up: called between two attempts. Raises RankError as `next_start` does.
        """
        checkpoint = self._first
        while True:
            try:
                return attempt(checkpoint)
            except RankError as error:
                checkpoint = self.next_start(error)
            clean_up()  # after the `except` block: the exception keeps the objects of the attempt alive

    def next_start(self, error: RankError) -> Start | None:
        """The checkpoint to continue from after the loss of a rank, None for step 0; shows a message.

        RankError with advice if a restart would not help, or if there were too many.
        """
        checkpoint = self._find()
        step = checkpoint.step if checkpoint else 0
        if step > self._last_step:
            self._last_step, self._count = step, 0
        if isinstance(error, FailedRankError) or self._count >= MAX_RESTARTS:
            raise type(error)(f"{error}{resume_advice(self.run, self.config, self.options)}") from None
        self._count += 1
        self.display.warn(f"{error}; restarting from step {step} (restart {self._count} of {MAX_RESTARTS})")
        return checkpoint


def resume_advice(run: RunDir, config: TrainConfig, options: str = "") -> str:
    """The end of a message, with the command that resumes a run; empty if it cannot be resumed.

    options: the command's options that are not settings.
    """
    command = " ".join(filter(None, ("splat train --resume", quoted(run.path), options)))
    return f"; continue with: {command}" if config.keep and is_run(run.path) else ""


def interruption(
    run: RunDir, config: TrainConfig, signal: KeyboardInterrupt, options: str = ""
) -> KeyboardInterrupt | Interrupted:
    """The exception for a signal outside of training, with the state that is saved and the command to resume.

    options: see `resume_advice`.
    """
    if not is_run(run.path):
        return signal
    newest = checkpoint_paths(run.checkpoints_path)[:1]
    saved = f"the newest checkpoint is {newest[0]}" if newest else "no checkpoint is saved yet"
    return Interrupted(f"Interrupted; {saved}{resume_advice(run, config, options)}", signal)


def free_memory(backend: Backend) -> None:
    """Free the memory of the trainer before a restart: a reference cycle with captured graphs keeps it alive."""
    gc.collect()
    backend.release_cached()
