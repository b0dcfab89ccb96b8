"""Defaults that depend on the photographs and points of a scene."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.config.combinations import trains_in_batches
from splat_cli.device.launch import ceil_div
from splat_cli.scene.view import View

STEPS_PER_VIEW = 120  # default; with more, held-out views get worse
STEPS_RANGE = (15_000, 30_000)
SHORT_RUN = 5_000  # steps; shorter runs start with large splats and split them, which converges sooner
BATCH, MIN_VIEWS_OF_BATCH = 4, 40  # with 17 photographs, batches reduce quality: docs/experiments/optimizer.md
REFERENCE_OVERLAP = 30.0  # views per point that lr_shN is given for
SH_FACTOR_RANGE = (0.3, 4.0)  # bounds of the factor of lr_shN by views per point
SH_POWER_OF_VISITS, MAX_SH_FACTOR_OF_VISITS = 0.75, 3.0
DROPOUT, MAX_DROPOUT = 2.5e-5, 0.25  # for each splat per photograph: docs/experiments/densification.md
ENOUGH_VIEWS = 120  # beyond, dropout falls with the square of the number of photographs
DROPOUT_PER_VISIT, MAX_DROPOUT_OF_VISITS = 6e-5, 0.05  # beyond HARMLESS_VISITS of each photograph
HARMLESS_VISITS = 150
_SAMPLED_POINTS = 2_000


def default_steps(num_views: int) -> int:
    """Default number of training steps: proportional to the number of views, within bounds."""
    low, high = STEPS_RANGE
    return min(max(STEPS_PER_VIEW * num_views, low), high)


def default_batch(config: TrainConfig, steps: int, num_views: int) -> int:
    """Default number of views of a batch, a multiple of `gpus`: batches of BATCH converge better in long runs.

    As many as GPUs in short runs, with few photographs, and with options for which batches were not measured.
    """
    if steps < SHORT_RUN or num_views < MIN_VIEWS_OF_BATCH or not trains_in_batches(config):
        return config.gpus
    return config.gpus * ceil_div(BATCH, config.gpus)


def views_per_point(views: Sequence[View], points: np.ndarray | None) -> float:
    """Estimate of the mean number of views that see a point, of points [P, 3]; a third of the views without points.

    Of each point, the length of the sum of the unit vectors to the cameras whose images contain it: two cameras on
    opposite sides, which cannot both see a point of a surface, cancel.
    """
    if points is None or not len(points):
        return len(views) / 3
    sample = points[:: ceil_div(len(points), _SAMPLED_POINTS)].astype(np.float64)
    sums = np.zeros(sample.shape)
    for view in views:
        offsets = view.center - sample
        sums += offsets * (view.project(sample)[2] / np.maximum(np.linalg.norm(offsets, axis=1), 1e-30))[:, None]
    return float(np.linalg.norm(sums, axis=1).mean())


def sh_lr_factor(overlap: float, visits: float) -> float:
    """Factor of lr_shN for `overlap` views per point and `visits` of each photograph.

    View-dependent colour overfits where few views show a point, and needs higher rates where many do or in short runs.
    """
    low, high = SH_FACTOR_RANGE
    by_visits = min(max((STEPS_PER_VIEW / visits) ** SH_POWER_OF_VISITS, 1.0), MAX_SH_FACTOR_OF_VISITS)
    return by_visits * min(max(overlap / REFERENCE_OVERLAP, low), high)


def dropout_for(steps: int, num_views: int, max_splats: int) -> float:
    """Default fraction of splats dropped in each step.

    Splats overfit where there are many for each photograph, and where each is visited often
    (docs/experiments/densification.md); not in short runs.
    """
    visits = steps / num_views
    by_splats = DROPOUT * max_splats / num_views * min(1.0, visits / STEPS_PER_VIEW, (ENOUGH_VIEWS / num_views) ** 2)
    by_visits = min(DROPOUT_PER_VISIT * max(visits - HARMLESS_VISITS, 0), MAX_DROPOUT_OF_VISITS)
    return min(by_visits + (by_splats if steps >= SHORT_RUN else 0.0), MAX_DROPOUT)
