"""Resolution of settings: defaults that depend on the number of steps, the photographs and the points of a scene."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from splat_cli.config import SETTINGS, ResolvedConfig, TrainConfig
from splat_cli.config.combinations import trains_in_batches, uses_free_space
from splat_cli.config.presets import changed_settings
from splat_cli.data.image_budget import resident_for_batch
from splat_cli.device import ceil_div, num_cores
from splat_cli.processes.threads import run_in_threads
from splat_cli.scene.images.decode import has_alpha
from splat_cli.scene.view import View, evenly_spread

_OF_ROUNDS = {
    *("strategy", "grad_threshold", "absgrad", "prune_opacity", "opacity_reset_interval", "score_views", "growth_rate"),
}
"""Settings that only rounds of density control read."""
SHORT_RUN = 5_000  # steps; shorter runs start with large splats and split them, which converges sooner
# A long run has at least this many steps and photographs. There, more splats gain more than more steps, and larger
# batches cost no quality: docs/experiments/optimizer.md#bonsai-to-304-db
LONG_STEPS, LONG_VIEWS = 15_000, 167
MIN_UPDATES = 1_000  # with fewer steps, batches reduce quality
DEPTH_WEIGHT = 0.1  # with depth maps: docs/experiments/depth.md
FREE_SPACE_WEIGHT = 0.1  # with --appearance grid: docs/experiments/appearance.md
MAX_DECODED = 32  # photographs that are decoded to see whether they are transparent


@dataclass(frozen=True)
class RunPlan:
    """requested: settings as given, with the number of steps. config: the resolved settings of training.

    num_views: number of training photographs. is_sparse: they are few, and few of them show each point.
    """

    requested: TrainConfig
    config: ResolvedConfig
    num_views: int
    is_sparse: bool

    @property
    def warnings(self) -> list[str]:
        """Warnings to display before training, one line each."""
        found = []
        steps, updates = self.config.steps, self.config.steps // self.config.batch_size
        if self.config.batch_size > 1 and updates < MIN_UPDATES:
            found.append(
                f"{steps:,} steps in batches of {self.config.batch_size} are {updates:,} updates, under "
                f"{MIN_UPDATES:,}: splats converge less; use a smaller --batch or more --steps"
            )
        if (levels := self.requested.coarse_levels or 1) > 1 and not self.config.coarse_until:
            found.append("--coarse-levels does nothing: these photographs are trained at full size only")
        elif levels > (most := self.config.coarse_levels):
            found.append(f"--coarse-levels {levels}: photographs are too small for more than {most}")
        found += self._of_density_control + self._of_initial_opacity
        late = [f"{step:,}" for step in self.config.save_steps if step > steps]
        if late and self.config.save_at is not None:
            found.append(f"nothing is saved at {', '.join(late)} (--save-at): the run ends after {steps:,} steps")
        return found

    @property
    def _of_density_control(self) -> list[str]:
        """Warnings of settings that no round of density control reads, and of a change of resolution at none."""
        config, interval, steps = self.config, self.config.densify_interval, self.config.steps
        found = []
        if self.requested.coarse_until and round(config.coarse_until * steps / interval) == 0:
            found.append(f"--coarse-until does nothing: sizes change at multiples of --densify-interval {interval}")
        intervals = (interval, config.opacity_reset_interval) if config.strategy == "adc" else (interval,)
        first = min((config.densify_start // interval + 1) * interval for interval in intervals)
        idle = [name for name in changed_settings(self.requested) if name in _OF_ROUNDS]
        if idle and first >= min(config.densify_stop, steps):
            found.append(
                f"{SETTINGS[idle[0]].option} does nothing: none of {steps:,} steps is a multiple of --densify-interval "
                f"{interval} between --densify-start {config.densify_start} and --densify-stop {config.densify_stop}"
            )
        return found

    @property
    def _of_initial_opacity(self) -> list[str]:
        config = self.config
        if config.init_from or config.prune_opacity < config.init_opacity:
            return []
        return [
            f"splats begin with an opacity of {config.init_opacity:g}, which --prune-opacity {config.prune_opacity:g} "
            "counts as transparent: rounds of density control find no others to copy, and adc removes them"
        ]

    def with_max_splats(self, limit: int) -> RunPlan:
        """The plan with at most `limit` splats, and the default dropout for that number."""
        config = dataclasses.replace(self.config, max_splats=limit)
        if self.requested.dropout is None:
            dropout = dropout_for(config.steps, self.num_views, limit, self.is_sparse)
            config = dataclasses.replace(config, dropout=dropout)
        return dataclasses.replace(self, config=config)


def resolve_plan(
    requested: TrainConfig,
    views: Sequence[View],
    points: np.ndarray | None = None,
    *,
    resident: int | None = None,
    from_splats: bool | None = None,
) -> RunPlan:
    """The plan of a run on the training views `views` of a scene with points float [P, 3], if it has any.

    resident: number of photographs that the device holds, if they are streamed. from_splats: training starts from
    trained splats (default: if `init_from` is set); then short runs do not raise learning rates, and SH degrees start
    at the maximum.
    """
    if from_splats is None:
        from_splats = requested.init_from is not None
    overlap = views_per_point(views, points)
    is_sparse = not from_splats and is_sparse_capture(len(views), overlap)
    steps = default_steps(len(views), is_sparse) if requested.steps is None else requested.steps
    if requested.batch is None:
        batch = default_batch(requested, steps, len(views))
        fits = resident is None or resident >= resident_for_batch(batch, requested.gpus)
        requested = dataclasses.replace(requested, batch=batch if fits else requested.gpus)
    requested = with_whole_batches(requested, steps)
    steps = requested.num_steps
    num_pixels = sum(view.width * view.height for view in views)
    sparse = sparse_budget(len(views), overlap) if is_sparse else None
    budgeted = apply_splat_budget(requested, len(views), num_pixels, sparse)
    is_large = not from_splats and starts_large(len(views), overlap)
    resolved: dict[str, Any] = vars(budgeted) | resolve_schedule(budgeted, steps, from_splats, is_large)
    resolved |= coarse_start(requested, views, from_splats)
    for name in ("densify_interval", "opacity_reset_interval"):
        resolved[name] = max(round(resolved[name] / requested.batch_size), 1) * requested.batch_size
    visits = STEPS_PER_VIEW if from_splats else steps / len(views)
    resolved["lr_shN"] = requested.lr_shN * sh_lr_factor(overlap, visits)
    if requested.background == "auto":
        resolved["background"] = "black" if _are_transparent(views) else "random"
    if requested.depth_weight is None:
        resolved["depth_weight"] = DEPTH_WEIGHT if any(view.depth for view in views) else 0.0
    if requested.free_space is None:
        has_points = points is not None and len(points) > 0
        resolved["free_space"] = FREE_SPACE_WEIGHT if uses_free_space(requested) and has_points else 0.0
    if requested.dropout is None:
        resolved["dropout"] = dropout_for(steps, len(views), budgeted.max_splats, is_sparse)
    return RunPlan(requested, ResolvedConfig(**resolved), len(views), is_sparse)


def _are_transparent(views: Sequence[View]) -> bool:
    """Whether one of MAX_DECODED photographs, evenly spread, has transparent pixels: opaque alpha channels have none.

    These must be decoded (12 million pixels: 0.4 s). A transparent photograph that is not among them is left out with
    advice when it is loaded.
    """
    paths = (view.path for view in evenly_spread(views, MAX_DECODED))
    return any(run_in_threads((partial(has_alpha, path) for path in paths if path is not None), num_cores()))


def with_whole_batches(config: TrainConfig, steps: int) -> TrainConfig:
    """The settings of a run of about `steps` steps, all `decided`; steps and save_at rounded up to whole batches."""
    size = config.batch_size
    save_at = None if config.save_at is None else tuple(config.save_steps)
    return dataclasses.replace(config, steps=ceil_div(steps, size) * size, save_at=save_at, **config.decided)


# Number of steps, batches.
STEPS_PER_VIEW = 120  # default maximum; with more steps, held-out views get worse
STEPS_RANGE = (10_000, 20_000)
SPARSE_STEPS = 5_000  # see `is_sparse_capture`
BATCH, BATCH_MIN_VIEWS = 4, 40  # with 17 photographs, batches reduce quality: docs/experiments/optimizer.md
LONG_BATCH = 8


def default_steps(num_views: int, is_sparse: bool = False) -> int:
    """Default number of training steps: proportional to the number of views, within bounds; fewer for few views."""
    if is_sparse:
        return SPARSE_STEPS
    low, high = STEPS_RANGE
    return min(max(STEPS_PER_VIEW * num_views, low), high)


def is_long(steps: int | None, num_views: int) -> bool:
    """Whether a run has at least LONG_STEPS steps and LONG_VIEWS photographs. steps: None by default."""
    return num_views >= LONG_VIEWS and (steps is None or steps >= LONG_STEPS)


def default_batch(config: TrainConfig, steps: int, num_views: int) -> int:
    """Default number of views of a batch, a multiple of `gpus`: batches converge better in long runs.

    One view per GPU in short runs, with few photographs, and with options for which we did not measure batches.
    """
    if steps < SHORT_RUN or num_views < BATCH_MIN_VIEWS or not trains_in_batches(config):
        return config.gpus
    return config.gpus * ceil_div(LONG_BATCH if is_long(steps, num_views) else BATCH, config.gpus)


# Number of splats: docs/experiments/densification.md.
BUDGET, LONG_BUDGET = 1.74, 2.15  # splat_budget
BUDGET_MIN_SPLATS = 20_000  # default of runs on few pixels
MIN_VIEW_PIXELS = 700_000  # smaller photographs need as many splats as those of this size
MIN_PIXELS_PER_SPLAT = 87  # with a budget of 1, on tiny photographs
# with more fine detail in the error than MIN_DETAIL, more splats pay, up to MAX_DETAIL_FACTOR times as many
MIN_DETAIL, MAX_DETAIL_FACTOR, DETAIL_FOR_MORE_STEPS = 0.3, 2.5, 1.2


def apply_splat_budget(
    config: TrainConfig, num_views: int, num_pixels: int, sparse: float | None = None
) -> TrainConfig:
    """The settings with max_splats limited by the budget for training photographs with `num_pixels` pixels in all.

    sparse: default of splat_budget of a sparse capture (`sparse_budget`).
    """
    default, least = sparse, SPARSE_MIN_SPLATS
    if default is None:
        default, least = default_budget(config.steps, num_views), BUDGET_MIN_SPLATS
    factor = default if config.splat_budget is None else config.splat_budget
    if factor == 0:
        return config
    unit = num_pixels ** (2 / 3) if sparse else unit_of_budget(num_views, num_pixels)
    budget = max(int(factor * unit), least)
    return dataclasses.replace(config, max_splats=min(config.max_splats, budget))


def unit_of_budget(num_views: int, num_pixels: float) -> float:
    """Number of splats for a splat_budget of 1. Small photographs count like larger ones, because they are sharper."""
    return min(max(num_pixels, num_views * MIN_VIEW_PIXELS) ** (2 / 3), num_pixels / MIN_PIXELS_PER_SPLAT)


def default_budget(steps: int | None, num_views: int) -> float:
    """Default of splat_budget, except of sparse captures. steps: None by default."""
    return LONG_BUDGET if is_long(steps, num_views) else BUDGET


def budget_by_detail(shares: Sequence[float], steps: int, num_views: int, num_pixels: int) -> float | None:
    """splat_budget by the share of the error that fine detail makes up, in some photographs; None: the default.

    Where it is large, splats do not show detail that photographs agree on. Small photographs, and long runs on many,
    have more splats anyway. steps: of the run.
    """
    share = float(np.minimum(shares, MIN_DETAIL * MAX_DETAIL_FACTOR**2).mean())
    more = (share / MIN_DETAIL) ** 0.5 * num_pixels ** (2 / 3) / unit_of_budget(num_views, num_pixels)
    return BUDGET * more if BUDGET * more > default_budget(steps, num_views) else None


def steps_by_detail(shares: Sequence[float], steps: int) -> int:
    """Number of steps by the same shares: at least LONG_STEPS instead of `steps` where they are large."""
    return max(steps, LONG_STEPS) if np.mean(shares) >= DETAIL_FOR_MORE_STEPS else steps


# Captures whose points few photographs show: docs/experiments/validation.md. More steps or splats overfit.
SPARSE_VIEWS = 30  # fewer photographs than this,
SPARSE_SHARE, SPARSE_OVERLAP = 0.56, 5.0  # of which fewer than this share, or number, show a point
SPARSE_BUDGET, SPARSE_MIN_SPLATS, SPARSE_DROPOUT = BUDGET / 4, 5_000, 0.3
DOUBLE_SHARE = 0.42  # of the photographs that show a point, from which twice that budget is better
LARGE_START_SHARE, LARGE_START_OVERLAP = (0.42, 0.9), 10.0  # where this share and number show a point


def is_sparse_capture(num_views: int, overlap: float) -> bool:
    """Whether there are few photographs, and few of them show the same point. overlap: `views_per_point`."""
    return num_views < SPARSE_VIEWS and overlap < max(SPARSE_SHARE * num_views, SPARSE_OVERLAP)


def sparse_budget(num_views: int, overlap: float) -> float:
    """Default of splat_budget of a sparse capture: a quarter of the usual, or half if more photographs show a point."""
    return SPARSE_BUDGET * (2 if overlap >= max(DOUBLE_SHARE * num_views, SPARSE_OVERLAP) else 1)


def starts_large(num_views: int, overlap: float) -> bool:
    """Whether initial splats are large and transparent: few photographs, but not a small share of them, show a point.

    Not if all look in one direction and show nearly all points.
    """
    low, high = LARGE_START_SHARE
    return low * num_views <= overlap < min(high * num_views, LARGE_START_OVERLAP)


# Schedules.
REFERENCE_STEPS = 30_000  # growth_rate and learning rates are given for runs of this length
MAX_LR_FACTOR = 5.0  # upper bound in short runs
MAX_GROWTH = 0.2  # per round, upper bound in short runs
SHORT_START, LONG_START = (0.1, 1.0, 0.0), (0.5, 0.1, 30_000.0)  # init_opacity, init_scale, noise_scale


def resolve_schedule(
    config: TrainConfig, steps: int, from_splats: bool = False, is_large: bool = False
) -> dict[str, Any]:
    """Settings that depend on the number of steps, mostly in proportion to it. is_large: see `starts_large`."""

    def or_share(step: int | None, share: float) -> int:
        return step if step is not None else max(1, round(share * steps))

    short = steps < SHORT_RUN
    opacity, scale, noise_scale = SHORT_START if short else LONG_START
    if is_large:
        opacity, scale, _ = SHORT_START
    factor = 1.0 if from_splats else lr_factor(steps)
    growth = (1 + config.growth_rate) ** min(REFERENCE_STEPS / steps, 100) - 1
    return {
        "sh_degree_interval": 1 if from_splats or config.frozen else or_share(config.sh_degree_interval, 1 / 30),
        "densify_start": or_share(config.densify_start, 1 / 60),
        "densify_stop": or_share(config.densify_stop, 2 / 3),
        "lr_decay_start": or_share(config.lr_decay_start, 1 / 2),
        "growth_rate": min(growth, max(MAX_GROWTH, config.growth_rate)),
        "init_opacity": opacity if config.init_opacity is None else config.init_opacity,
        "init_scale": scale if config.init_scale is None else config.init_scale,
        "strategy": ("splits" if short else "copies") if config.strategy == "default" else config.strategy,
        "lr_means": factor * config.lr_means,
        "lr_means_final": factor * config.lr_means_final,
        "lr_scales": factor * config.lr_scales,
        "lr_quats": factor * config.lr_quats,
        # the kernel multiplies noise by the learning rate of positions: divide by its factor
        "noise_scale": (noise_scale if config.noise_scale is None else config.noise_scale) / factor,
    }


def lr_factor(steps: int) -> float:
    """Factor of the learning rates of positions, scales and rotations: they have to move equally far in fewer steps."""
    return min(max((REFERENCE_STEPS / steps) ** 0.5, 1.0), MAX_LR_FACTOR)


# Reduced resolution, by pixels per photograph: docs/experiments/start_and_images.md.
COARSE_UNTIL, LONG_COARSE_UNTIL, COARSE_MIN_PIXELS = 0.3, 0.45, 200_000
LARGE_COARSE_UNTIL, LARGE_LEVELS, LARGE_MIN_PIXELS, LARGE_MIN_STEPS = 0.6, 2, 1_000_000, 10_000
MIN_SIDE = 4  # px of the smallest photograph at a reduced resolution


def coarse_start(config: TrainConfig, views: Sequence[View], from_splats: bool) -> dict[str, Any]:
    """Settings of reduced resolutions: limits the levels so that the smallest side keeps MIN_SIDE pixels.

    By default, runs start at half or a quarter of the size if photographs are large, and error-guided strategies train
    splats alone. A quarter needs many steps: after it, few rounds remain to add splats.
    """
    pixels = sum(view.width * view.height for view in views) / len(views)
    smallest = min(min(view.width, view.height) for view in views)
    is_large = pixels >= LARGE_MIN_PIXELS and config.num_steps >= LARGE_MIN_STEPS
    wanted = config.coarse_levels or (LARGE_LEVELS if is_large else 1)
    levels = min(wanted, max(smallest // MIN_SIDE, 1).bit_length() - 1)
    until = config.coarse_until
    if until is None:
        measured = config.strategy in ("default", "splits", "copies") and trains_in_batches(config)
        of_smaller = LONG_COARSE_UNTIL if is_long(config.steps, len(views)) else COARSE_UNTIL
        share = LARGE_COARSE_UNTIL if is_large and levels > 1 else of_smaller
        until = share if pixels >= COARSE_MIN_PIXELS and measured and not from_splats else 0.0
    return {"coarse_until": until if levels else 0.0, "coarse_levels": max(levels, 1)}


# View-dependent colour.
REFERENCE_OVERLAP = 30.0  # lr_shN is given for this number of views per point
SH_FACTOR_RANGE = (0.3, 4.0)  # bounds of the factor of lr_shN by views per point
SH_VISITS_POWER, SH_VISITS_MAX_FACTOR = 0.75, 3.0  # factor by visits of each photograph
SAMPLED_POINTS = 2_000


def views_per_point(views: Sequence[View], points: np.ndarray | None) -> float:
    """Estimate of the mean number of views that see one of the points [P, 3]; without points, a third of the views.

    For each point, this is the length of the sum of unit vectors to the cameras whose images contain it. Cameras on
    opposite sides cannot both see a point of a surface; their vectors cancel.
    """
    if points is None or not len(points):
        return len(views) / 3
    sample = points[:: ceil_div(len(points), SAMPLED_POINTS)].astype(np.float64)
    sums = np.zeros(sample.shape)
    for view in views:
        offsets = view.center - sample
        sums += offsets * (view.project(sample)[2] / np.maximum(np.linalg.norm(offsets, axis=1), 1e-30))[:, None]
    return float(np.linalg.norm(sums, axis=1).mean())


def sh_lr_factor(overlap: float, visits: float) -> float:
    """Factor of lr_shN for `overlap` views per point and `visits` of each photograph.

    View-dependent colour overfits if few views show a point. It needs higher rates in short runs and if many views show
    a point.
    """
    low, high = SH_FACTOR_RANGE
    by_visits = min(max((STEPS_PER_VIEW / visits) ** SH_VISITS_POWER, 1.0), SH_VISITS_MAX_FACTOR)
    return by_visits * min(max(overlap / REFERENCE_OVERLAP, low), high)


# Dropout: docs/experiments/densification.md.
DROPOUT, MAX_DROPOUT = 2.5e-5, 0.25  # per splat and photograph
ENOUGH_VIEWS = 120  # with more, dropout falls with the square of the number of photographs
VISITS_DROPOUT, MAX_VISITS_DROPOUT = 6e-5, 0.05  # per visit of each photograph beyond HARMLESS_VISITS
HARMLESS_VISITS = 150


def dropout_for(steps: int, num_views: int, max_splats: int, is_sparse: bool = False) -> float:
    """Default fraction of splats dropped in each step.

    Splats overfit if there are many per photograph or if photographs are visited often
    (docs/experiments/densification.md), but not in short runs.
    """
    if is_sparse and steps >= SHORT_RUN:
        return SPARSE_DROPOUT
    visits = steps / num_views
    by_splats = DROPOUT * max_splats / num_views * min(1.0, visits / STEPS_PER_VIEW, (ENOUGH_VIEWS / num_views) ** 2)
    by_visits = min(VISITS_DROPOUT * max(visits - HARMLESS_VISITS, 0), MAX_VISITS_DROPOUT)
    return min(by_visits + (by_splats if steps >= SHORT_RUN else 0.0), MAX_DROPOUT)
