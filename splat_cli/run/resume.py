"""Resumption of a run: its settings, checkpoint and changed options. checkpoints/state.py restores the state."""

import dataclasses
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from splat_cli.config import SETTINGS, TrainConfig
from splat_cli.console import Display
from splat_cli.errors import UsageError
from splat_cli.run.checkpoints.checkpointer import checkpoint_path, newest_checkpoint
from splat_cli.run.checkpoints.file import Checkpoint
from splat_cli.run.plan import with_whole_batches
from splat_cli.run.setup.training_data import with_fixed_paths
from splat_cli.run.storage.find_run import is_run
from splat_cli.run.storage.run_dir import RunDir

_FIXED = ("seed", "batch", "eval", "test_every", "split_by", "split", "sh_degree", "color", "field_table_size",
          "field_appearance", "field_direction_degree", "field_sh_degree", "field_features", "crop_start", "points",
          "depths", "depth_maps", "depth_unit", "init", "sky", "init_points", "init_from", "frozen", "init_opacity",
          "init_scale", "background", "smooth_3d", "pose_opt", "refine_intrinsics", "refine_distortion", "appearance",
          "robust", "local_frame_adam", "moments")  # fmt: skip
"""Settings that cannot change in a run: used at the start only, or defining held-out views or checkpoint arrays."""


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

    Runs whose files cannot be read, damaged or of another version, are passed over: they cannot be continued.
    """
    wanted = with_fixed_paths(config, scene)
    for folder in filter(is_run, folders):
        with suppress(UsageError):
            if _is_interrupted(RunDir(folder), scene, wanted):
                return folder
    return None


def _is_interrupted(run: RunDir, scene: Path, wanted: TrainConfig) -> bool:
    before = run.config()
    asked = wanted if wanted.batch else dataclasses.replace(wanted, batch=before.batch)
    same = before == with_whole_batches(asked, asked.steps or before.num_steps)
    return same and not run.result() and run.provenance().get("scene") == str(scene.resolve())


def plan_resumption(run: RunDir, scene: Path | None, changes: dict[str, Any], display: Display) -> Resumption:
    """How to continue `run` with `changes` to its settings; scene: new location of the scene, if it moved.

    FinishedError if nothing is left to do, UsageError if a setting cannot be changed.
    """
    before, scene = run.config(), scene or run.scene_path()
    config = with_fixed_paths(dataclasses.replace(before, **changes), scene)
    changes = {name: getattr(config, name) for name in changes if getattr(config, name) != getattr(before, name)}
    _refuse_fixed(changes)
    for name in changes:
        declared = SETTINGS[name]
        display.say(
            f"Changed: {declared.option} {declared.show(getattr(before, name))} -> {declared.show(changes[name])}"
        )
    done = run.result().get("steps", 0)
    if config.num_steps <= done and not _lacks_results(run, config):
        raise FinishedError(f"{run.path} is finished after {done} steps: give more --steps to continue")
    checkpoint = newest_checkpoint(run.checkpoints_path, display.warn)
    if checkpoint is None:
        display.say("No checkpoint was saved yet: starting from step 0")
    elif checkpoint.step > config.num_steps:
        raise UsageError(f"{run.path} is at step {checkpoint.step} already: give more than {config.num_steps} --steps")
    elif "max_splats" in changes and (num := checkpoint.num_splats - checkpoint.num_frozen) > config.max_splats:
        display.warn(
            f"--max-splats {config.max_splats:,} is below the {num:,} splats of {run.path}: training adds none and "
            f"removes none for it; for fewer, `splat export {run.path} OUT.ply --max-splats {config.max_splats}`"
        )
    return Resumption(scene, config, checkpoint)


def _lacks_results(run: RunDir, config: TrainConfig) -> bool:
    """Whether splats or scores are missing that can be computed from a checkpoint."""
    unsaved = run.unsaved_steps(config, config.num_steps)
    return any(checkpoint_path(run.checkpoints_path, step).is_file() for step in unsaved)


def _refuse_fixed(changes: dict[str, Any]) -> None:
    fixed = [SETTINGS[name].option for name in changes if name in _FIXED]
    if fixed:
        raise UsageError(f"{', '.join(fixed)} cannot change in a run that has begun: leave it out, or start a new run")
