"""The trainer's state, captured for a checkpoint and restored by --resume (docs/checkpoints.md)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.errors import FormatError, UsageError
from splat_cli.gaussians.splats import SHN
from splat_cli.model.model import GRAIN, num_moments, packed_moments, rounded_capacity
from splat_cli.render.iter_state import ITER_STATE_DTYPE
from splat_cli.run.checkpoints.file import Checkpoint
from splat_cli.train.joint_models import late_arrays
from splat_cli.train.trainer import Trainer

_MiB = 2**20


def capture_state(trainer: Trainer) -> Checkpoint:
    """A copy of the trainer's state between two steps. Arrays are copied on the device if its memory suffices."""
    model, state = trainer.model, trainer.state.read()
    state["skipped_updates"] = trainer.nonfinite_counts["skipped_updates"]
    arrays = trainer.copied_planes()
    arrays |= {name: array.copy() for name, array in trainer.joint.arrays().items()}
    metadata = {
        "capacity": trainer.capacity,
        "num_features": model.splats.num_features,
        "size": trainer.size,
        "state": {name: state[name].tolist() for name in ITER_STATE_DTYPE.names or ()},
        "removed": trainer.density.num_removed,
        "random": trainer.density.rng.bit_generator.state,
        "views": [view.name for view in trainer.cameras.views],
        "settings": dataclasses.asdict(trainer.config),
        "versions": {"numpy": np.__version__, "device": trainer.backend.describe()},
    }
    trainer.backend.synchronize()
    return Checkpoint(trainer.step, arrays, metadata)


def restore_state(trainer: Trainer, checkpoint: Checkpoint) -> None:
    """Set the trainer to the state of a checkpoint.

    UsageError if the photographs differ from the checkpoint's, FormatError if its arrays do not fit the
    settings.
    """
    views = [view.name for view in trainer.cameras.views]
    if views != checkpoint.metadata["views"]:
        raise UsageError(
            "the photographs are not those that the run was trained on: "
            f"{_difference(views, checkpoint.metadata['views'])}; put them back, or start a new run from its splats "
            "with --init-from"
        )
    trainer.model.num_frozen = checkpoint.num_frozen
    checkpoint = _without_former_moments(trainer, checkpoint)
    _check_arrays(trainer, checkpoint)
    limit = trainer.config.max_splats + checkpoint.num_frozen + GRAIN
    most = max(checkpoint.num_splats, limit, trainer.capacity)
    capacity = min(checkpoint.metadata["capacity"], most)
    if trainer.model.on_device:  # it has room for all splats from the start
        capacity = max(trainer.capacity, rounded_capacity(checkpoint.num_splats))
    trainer.set_size(checkpoint.metadata.get("size", trainer.extent))  # older checkpoints used the extent
    trainer.load_planes({name: checkpoint.arrays[name] for name in trainer.model.planes()}, capacity, checkpoint.step)
    trainer.joint.load(checkpoint.arrays)
    _clear_other_stats(trainer, checkpoint)
    known = {
        name: value for name, value in checkpoint.metadata["state"].items() if name in (ITER_STATE_DTYPE.names or ())
    }
    trainer.state.write(**known)
    trainer.density.rng.bit_generator.state = checkpoint.metadata["random"]
    trainer.density.num_removed = checkpoint.metadata["removed"]
    trainer.loop.sync()


def _difference(views: Sequence[str], before: Sequence[str]) -> str:
    """How names of views differ from the checkpoint: the first added or missing names, or the order."""
    if changed := sorted(set(views) ^ set(before)):
        return f"{', '.join(changed[:5])} came or went"
    name, other = next(pair for pair in zip_longest(views, before) if pair[0] != pair[1])
    return f"they are in another order, {name} instead of {other}"


def _clear_other_stats(trainer: Trainer, checkpoint: Checkpoint) -> None:
    """Start new statistics if --strategy was changed: the checkpoint's statistics have another meaning."""
    before, config = checkpoint.metadata.get("settings", {}), trainer.config
    old = before.get("strategy"), before.get("relocate_unseen", False)
    if old != (config.strategy, config.relocate_unseen):
        trainer.clear_stats(checkpoint.step)


def _without_former_moments(trainer: Trainer, checkpoint: Checkpoint) -> Checkpoint:
    """A checkpoint without what earlier versions stored: moments of view-dependent colours and of frozen splats.

    Earlier versions also had float32 moments in `moments1` and `moments2`.
    """
    arrays, num = dict(checkpoint.arrays), checkpoint.num_splats
    if "moments" not in arrays:
        arrays["moments"] = packed_moments(*(_without_colors(trainer, arrays.pop(f"moments{k}")) for k in (1, 2)))
    arrays["moments"] = _without_colors(trainer, arrays["moments"])
    for name in arrays.keys() & trainer.model.planes().keys():
        if arrays[name].shape[1] == num:
            arrays[name] = arrays[name][:, trainer.model.missing(name) :]
    return dataclasses.replace(checkpoint, arrays=arrays)


def _without_colors(trainer: Trainer, moments: np.ndarray) -> np.ndarray:
    excess = max(len(moments) - len(trainer.model.moments), 0)
    return np.delete(moments, slice(SHN.start, SHN.start + excess), axis=0)


def _check_arrays(trainer: Trainer, checkpoint: Checkpoint) -> None:
    """FormatError unless shapes match the settings and arrays of joint models are finite."""
    model, num = trainer.model, checkpoint.num_splats
    planes = {name: (len(array), num - model.missing(name)) for name, array in model.planes().items()}
    joint = {name: array.shape for name, array in trainer.joint.arrays().items()}
    optional = late_arrays(trainer.config)
    for name, shape in {**planes, **joint}.items():
        array = checkpoint.arrays.get(name)
        if array is None and name in optional:
            continue
        if array is not None and array.shape == shape and (name in planes or np.isfinite(array).all()):
            continue
        found = "missing" if array is None else "not finite" if array.shape == shape else str(list(array.shape))
        raise FormatError(
            f"the checkpoint of step {checkpoint.step} does not fit the run's settings: its `{name}` is {found}, "
            f"expected {list(shape)}; if config.toml was changed, change it back, else remove the checkpoint to "
            "continue from the one before"
        )


def needs_initial_state(checkpoint: Checkpoint, config: TrainConfig) -> bool:
    """Whether the checkpoint lacks arrays that must be computed from the run's initial splats."""
    return not late_arrays(config) <= checkpoint.arrays.keys()


def checkpoint_bytes(num_splats: int, rows: int, num_features: int = 0) -> int:
    """Upper bound of the size of the file, in bytes: parameters, moments, two statistics, 3D filter."""
    return num_splats * (rows + num_moments(num_features) + 3) * 4 + _MiB
