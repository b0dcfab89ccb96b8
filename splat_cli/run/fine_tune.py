"""Fine-tuning of existing splats without densification."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from splat_cli.config import TrainConfig
from splat_cli.console import Progress
from splat_cli.data.image_budget import image_budget
from splat_cli.device import Backend
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.ply import finite_splats
from splat_cli.run.setup.build_trainer import build_trainer
from splat_cli.scene.images.image_set import ImageSet
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
