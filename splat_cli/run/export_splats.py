"""Splats of a run for its files: taken from the trainer, a colour field baked into harmonics, fine-tuned, saved."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.data.image_budget import image_budget
from splat_cli.device import Backend
from splat_cli.errors import DivergedError, OutOfMemory
from splat_cli.eval.held_out_fit import has_appearances
from splat_cli.field.bake_sh import Baked, bake_field
from splat_cli.field.file import NAME, write_field
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.ply import finite_splats, write_ply
from splat_cli.run.setup.build_trainer import build_trainer
from splat_cli.scene.georeferenced import point_of
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.points.observations import Observations
from splat_cli.terminal.console import Progress
from splat_cli.train.trainer import Trainer, TrainingInputs

_FINE_TUNING: dict[str, Any] = {
    **{"gpus": 1, "batch": 1, "splat_budget": 0.0, "lr_decay_start": 0, "coarse_until": 0.0},
    **{"opacity_reg": 0.0, "scale_reg": 0.0, "noise_scale": 0.0, "relocate_unseen": False},
    **{"init_from": None, "frozen": None, "pose_opt": False},
    **{"smooth_3d": 0.0, "color": "sh"},  # both are baked into saved splats
}
"""Settings of fine-tuning that differ from those of the run."""
_POLISH_SHARE = 1 / 3
"""Steps of `polished`, relative to the run's."""
_POLISH_RATES = {"lr_means": 0.2, "lr_scales": 0.4, "lr_quats": 0.5, "lr_opacities": 0.4}
"""Learning rates of `polished`, relative to the run's."""


@dataclass(frozen=True)
class RunSplats:
    """trained: finite splats. baked: splats with spherical harmonics fitted to a colour field; None without a field."""

    trained: SplatArrays
    baked: Baked | None = None

    @property
    def standard(self) -> SplatArrays:
        """The splats with spherical harmonics, as saved in the PLY."""
        return self.trained if self.baked is None else self.baked.splats


def fine_tune(
    backend: Backend,
    splats: SplatArrays,
    photographs: ImageSet,
    config: TrainConfig,
    steps: int,
    on_progress: Callable[[Progress], None] | None = None,
    points: np.ndarray | Observations | None = None,
    **changes: Any,
) -> SplatArrays:
    """The splats after `steps` more steps with a run's settings and `changes`; learning rates decay from step 0.

    Number and order of the splats are unchanged. Opacity and scale regularisers are off. points: see `TrainingInputs`.
    """
    config = dataclasses.replace(config, steps=steps, max_splats=len(splats), densify_start=steps, densify_stop=steps)
    config = dataclasses.replace(config, **{**_FINE_TUNING, **changes})
    budget = image_budget(backend, config, photographs.views, ())
    trainer = build_trainer(backend, config, TrainingInputs(photographs, budget, points), finite_splats(splats))
    trainer.run_until(steps, on_progress)
    tuned = finite_splats(trainer.splats.to_arrays())
    return dataclasses.replace(tuned, antialiased=splats.antialiased, origin=splats.origin)


def splats_of_run(trainer: Trainer, config: TrainConfig, origin: Iterable[float] = (0.0, 0.0, 0.0)) -> RunSplats:
    """The trainer's finite splats, with its colour field baked into harmonics. DivergedError if there is none.

    config: settings as requested. origin: the scene's origin, stated in the PLY.
    """
    trained, field = trainer.splats.to_arrays(), trainer.joint.field
    splats = finite_splats(trained)
    if len(trained) == 0:
        raise DivergedError(
            f"after step {trainer.step} no splat is left, since all were pruned: lower --prune-opacity, or check the "
            "photographs and cameras of the scene"
        )
    if len(splats) == 0:
        raise DivergedError(
            f"training diverged: after step {trainer.step} no splat has finite parameters; lower the learning rates, "
            "or check the photographs and cameras of the scene"
        )
    splats = dataclasses.replace(splats, antialiased=trainer.config.antialias, origin=point_of(origin))
    if field is None:
        return RunSplats(splats)
    views = trainer.refined_views(trainer.cameras.views)
    return RunSplats(
        splats, trainer.run_with_memory_fallback(lambda: bake_field(field, splats, views, config.sh_degree))
    )


def polished(
    splats: RunSplats,
    trainer: Trainer,
    config: TrainConfig,
    photographs: ImageSet,
    say: Callable[[str], object] = lambda text: None,
) -> RunSplats:
    """The baked splats fine-tuned on the training photographs, if these contain all that the colour field models.

    After fine-tuning, overlapping splats together can represent parts of the field that single splats cannot. Without a
    field or enough memory, the splats are unchanged. say: called with messages.
    """
    baked = splats.baked
    if baked is None or not _all_in_photographs(config):
        return splats
    steps = max(round(_POLISH_SHARE * trainer.config.steps), 1)
    say(f"Training the baked splats of the PLY for {steps:,} steps")
    rates = {name: share * getattr(config, name) for name, share in _POLISH_RATES.items()}
    placed = photographs._replace(views=trainer.refined_views(trainer.cameras.views))
    try:
        tuned = trainer.run_with_memory_fallback(
            lambda: fine_tune(trainer.backend, baked.splats, placed, config, steps, **rates)
        )
    except (MemoryError, OutOfMemory):
        say("Not enough device memory to train them: the PLY has them as baked")
        return splats
    return dataclasses.replace(splats, baked=dataclasses.replace(baked, splats=tuned))


def save_splats(path: Path, splats: RunSplats, trainer: Trainer) -> str | None:
    """Write the splats as PLY, and the trainer's colour field, if any, next to it; returns a message about both.

    Raises DiskError and UsageError as `write_ply` does.
    """
    field, baked = trainer.joint.field, splats.baked
    if field is None or baked is None:
        write_ply(path, splats.trained, durable=True)
        return None
    own = path.with_name(NAME)
    write_field(own, field, splats.trained, [view.name for view in trainer.cameras.views])
    write_ply(path, baked.splats, durable=True)
    sizes = [f"{file.stat().st_size / 2**20:.1f} MiB" for file in (own, path)]
    return (
        f"Colour field with its splats: {sizes[0]}, {own}; as a PLY: {sizes[1]}, baked into harmonics of degree "
        f"{baked.splats.sh_degree}, which leave {baked.residual:.4f} (root mean square of colours 0 to 1)"
    )


def _all_in_photographs(config: TrainConfig) -> bool:
    """Whether splats alone can reproduce the photographs: no appearance embeddings, no learned background."""
    return not (has_appearances(config) or config.has_appearance or config.background == "learned")
