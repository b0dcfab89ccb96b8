"""What depends on a run's length: the steps at which it changes, how it starts and grows, and how fast splats move."""

from dataclasses import dataclass

from splat_cli.config import TrainConfig

REFERENCE_STEPS = 30_000  # length of a run that growth_rate and learning rates are given for
MAX_LR_FACTOR = 5.0  # however short the run
MAX_GROWTH = 0.2  # a round, however short the run
SHORT_RUN = 15_000  # steps; below, splats start large and are split, which soon looks right; above, small


@dataclass(frozen=True)
class Milestones:
    """Steps, counted from 1. growth_rate: share of all splats that may be added in one round.

    init_opacity, init_scale: of splats made from points. splits: whether error-guided density control splits splats;
    else it copies them. lr_scale: what the learning rates of positions, sizes and rotations are multiplied by.
    noise_scale: what they are multiplied by for noise, which is as strong however long the run.
    """

    sh_degree_interval: int
    densify_start: int
    densify_stop: int
    lr_decay_start: int
    growth_rate: float
    init_opacity: float
    init_scale: float
    splits: bool
    lr_scale: float
    noise_scale: float


def milestones(config: TrainConfig) -> Milestones:
    """What is not set follows --steps: a short run is a long one in fast motion, not its beginning."""

    def or_share(step: int | None, share: float) -> int:
        return step if step is not None else max(1, round(share * config.steps))

    short = config.steps < SHORT_RUN
    splits = config.strategy == "splits" or (config.strategy == "default" and short)
    opacity, scale, noise_scale = (0.1, 1.0, 0.0) if short else (0.5, 0.1, 30_000.0)
    lr_scale = _lr_scale(config)
    growth = (1 + config.growth_rate) ** min(REFERENCE_STEPS / config.steps, 100) - 1
    return Milestones(
        sh_degree_interval=or_share(config.sh_degree_interval, 1 / 30),
        densify_start=or_share(config.densify_start, 1 / 60),
        densify_stop=or_share(config.densify_stop, 2 / 3),
        lr_decay_start=or_share(config.lr_decay_start, 1 / 2),
        growth_rate=min(growth, max(MAX_GROWTH, config.growth_rate)),
        init_opacity=opacity if config.init_opacity is None else config.init_opacity,
        init_scale=scale if config.init_scale is None else config.init_scale,
        splits=splits,
        lr_scale=lr_scale,
        noise_scale=(noise_scale if config.noise_scale is None else config.noise_scale) / lr_scale,
    )


def _lr_scale(config: TrainConfig) -> float:
    """Splats have as far to go in fewer steps; those that were trained before are where they should be."""
    if config.init_from is not None:
        return 1.0
    return min(max((REFERENCE_STEPS / config.steps) ** 0.5, 1.0), MAX_LR_FACTOR)
