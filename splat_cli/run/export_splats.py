"""Export of a run's splats: the PLY file, and the file of a colour field."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from splat_cli.config import TrainConfig
from splat_cli.data.image_budget import image_budget
from splat_cli.device import Backend
from splat_cli.errors import DivergedError, OutOfMemory
from splat_cli.eval.embedding_fit import has_appearances
from splat_cli.field.bake_sh import Baked, bake_field
from splat_cli.field.color_field import ColorField
from splat_cli.field.file import NAME, write_field
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.ply import finite_splats, write_ply
from splat_cli.run.setup.build_trainer import build_trainer
from splat_cli.scene.georeferenced import point_of
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.terminal.console import Progress
from splat_cli.train.refined_views import refined_views
from splat_cli.train.trainer import Trainer
from splat_cli.train.training_inputs import TrainingInputs


def fine_tune(
    backend: Backend,
    splats: SplatArrays,
    photographs: ImageSet,
    config: TrainConfig,
    steps: int,
    on_progress: Callable[[Progress], None] | None = None,
    **changes: Any,
) -> SplatArrays:
    """The splats after `steps` more steps with a run's settings and `changes`; learning rates decay from step 0.

    Number and order of the splats are unchanged. Opacity and scale regularisers are off.
    """
    config = dataclasses.replace(
        config, steps=steps, gpus=1, batch=1, max_splats=len(splats), splat_budget=0, densify_start=steps,
        densify_stop=steps, lr_decay_start=0, opacity_reg=0, scale_reg=0, noise_scale=0, pose_opt=False,
        init_from=None, frozen=None, coarse_until=0, relocate_unseen=False,
        smooth_3d=0, color="sh", **changes,  # both are baked into saved splats
    )  # fmt: skip
    budget = image_budget(backend, config, photographs.views, ())
    trainer = build_trainer(backend, config, TrainingInputs(photographs, budget), finite_splats(splats))
    trainer.run_until(steps, on_progress)
    tuned = finite_splats(trainer.splats.to_arrays())
    return dataclasses.replace(tuned, antialiased=splats.antialiased, origin=splats.origin)


TUNED = 1 / 3  # of the run's steps, to fine-tune baked harmonics
RATES = {"lr_means": 0.2, "lr_scales": 0.4, "lr_quats": 0.5, "lr_opacities": 0.4}  # relative to the run's


@dataclass(frozen=True)
class SavedSplats:
    """splats: those of the PLY. notice: message for the user."""

    splats: SplatArrays
    notice: str | None = None


def save_splats(
    trainer: Trainer,
    config: TrainConfig,
    path: Path,
    photographs: ImageSet,
    say: Callable[[str], object] = lambda text: None,
    origin: Iterable[float] = (0.0, 0.0, 0.0),
) -> SavedSplats:
    """Write the finite splats as PLY; a colour field is baked into spherical harmonics.

    config: settings as requested. photographs: training images. say: called with messages during long work.
    origin: of the scene, which the PLY states.
    DivergedError if no splat is finite; DiskError, UsageError as in `write_ply`.
    """
    splats, field = finite_splats(trainer.splats.to_arrays()), trainer.joint.field
    if len(splats) == 0:
        raise DivergedError(
            f"training diverged: after step {trainer.step} no splat has finite parameters; lower the learning rates, "
            "or check the photographs and cameras of the scene"
        )
    splats = dataclasses.replace(splats, antialiased=trainer.config.antialias, origin=point_of(origin))
    if field is None:
        write_ply(path, splats, durable=True)
        return SavedSplats(splats)
    own = path.with_name(NAME)
    write_field(own, field, splats, [view.name for view in trainer.cameras.views])
    baked = _as_harmonics(trainer, config, field, splats, photographs, say)
    write_ply(path, baked.splats, durable=True)
    sizes = [f"{file.stat().st_size / 2**20:.1f} MiB" for file in (own, path)]
    return SavedSplats(
        baked.splats,
        f"Colour field with its splats: {sizes[0]}, {own}; as a PLY: {sizes[1]}, baked into harmonics of degree "
        f"{baked.splats.sh_degree}, which leave {baked.residual:.4f} (root mean square of colours 0 to 1)",
    )


def _as_harmonics(
    trainer: Trainer,
    config: TrainConfig,
    field: ColorField,
    splats: SplatArrays,
    photographs: ImageSet,
    say: Callable[[str], object],
) -> Baked:
    """The baked field; at the end of a run fine-tuned on the photographs, if these contain all that the field models.

    Overlapping splats together can represent parts of the field that single splats cannot, after fine-tuning.
    """
    views = refined_views(trainer, trainer.cameras.views)
    baked = trainer.run_with_memory_fallback(lambda: bake_field(field, splats, views, config.sh_degree))
    if trainer.step < trainer.config.steps or not _all_in_photographs(config):
        return baked
    steps = max(round(TUNED * trainer.config.steps), 1)
    say(f"Training the baked splats of the PLY for {steps:,} steps")
    rates = {name: share * getattr(config, name) for name, share in RATES.items()}
    placed = photographs._replace(views=views)
    try:
        tuned = trainer.run_with_memory_fallback(
            lambda: fine_tune(trainer.backend, baked.splats, placed, config, steps, **rates)
        )
    except (MemoryError, OutOfMemory):
        say("Not enough device memory to train them: the PLY has them as baked")
        return baked
    return dataclasses.replace(baked, splats=tuned)


def _all_in_photographs(config: TrainConfig) -> bool:
    """Whether splats alone can reproduce the photographs: no appearance embeddings, no learned background."""
    return not (has_appearances(config) or config.appearance != "none" or config.background == "learned")
