"""Levels of detail: fewer and fewer splats, each set trained a little to look like the photographs again."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.device import Backend
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.choose import keep_largest
from splat_cli.gaussians.ply import finite_splats, write_ply
from splat_cli.render.contribution import contributions
from splat_cli.scene.images import Photographs
from splat_cli.train.image_memory import image_room
from splat_cli.train.measure import photographs_of
from splat_cli.train.progress import Display
from splat_cli.train.run_folder import RunFolder
from splat_cli.train.trainer import Trainer


def levels_of_detail(
    backend: Backend, run: RunFolder, splats: SplatArrays, num_levels: int, steps: int, display: Display
) -> Iterator[SplatArrays]:
    """The run's splats, then sets of half as many as the one before: those that contribute most, trained `steps` steps.

    Raises SceneError where the run's photographs are gone.
    """
    yield splats
    if num_levels < 2:
        return
    photographs = photographs_of(run, run.views("train"), None, backend, display)
    for level in range(1, num_levels):
        scores = contributions(backend, splats, photographs.views)
        half = keep_largest(splats, scores, max(1, len(splats) // 2))
        display.say(f"Level {level}: {len(half):,} splats, {steps} steps")
        splats = fine_tuned(backend, half, photographs, run.config(), steps, display)
        yield splats


def fine_tuned(
    backend: Backend, splats: SplatArrays, photographs: Photographs, config: TrainConfig, steps: int, display: Display
) -> SplatArrays:
    """The splats after `steps` more steps with their run's settings; all rates shrink from the first step on.

    None come or go, and nothing makes them fainter or smaller.
    """
    with TemporaryDirectory() as folder:
        start = Path(folder, "start.ply")
        write_ply(start, splats)
        config = dataclasses.replace(
            config, steps=steps, init_from=str(start), max_splats=len(splats), splat_budget=0, densify_start=steps,
            densify_stop=steps, lr_decay_start=0, opacity_reg=0, scale_reg=0, noise_scale=0, pose_opt=False,
            smooth_3d=0, color="sh",  # filters and fields are part of the splats that the run saved
        )  # fmt: skip
        nothing = np.zeros((0, 3))
        trainer = Trainer(
            backend, photographs.views, photographs.images, nothing.astype(np.float32), nothing.astype(np.uint8),
            config, photographs.masks, room=image_room(backend, config, photographs.views, ()),
        )  # fmt: skip
    with display.training(steps) as show:
        trainer.run_until(steps, show)
    return dataclasses.replace(finite_splats(trainer.splats.to_arrays()), antialiased=splats.antialiased)
