"""Options that train more than splats, or not all of them, and what depends on several options."""

from __future__ import annotations

from collections.abc import Callable

from splat_cli.config import TrainConfig

TRAINED_WITH_SPLATS: dict[str, Callable[[TrainConfig], bool]] = {
    "--color field": lambda config: config.color == "field",
    "--pose-opt": lambda config: config.pose_opt,
    "--background learned": lambda config: config.background == "learned",
    "--appearance": lambda config: config.appearance != "none",
    "--robust": lambda config: config.robust,
    "--depth-weight": lambda config: bool(config.depth_weight),
    "--frozen": lambda config: config.frozen is not None,
}
"""Options that several GPUs do not train, since each trains for itself -> whether the settings ask for it."""

TRAINED_IN_BATCHES = ("--color field",)
"""Those with which batches are as good as without, as measured (docs/field.md)."""


def uses_free_space(config: TrainConfig) -> bool:
    """Whether runs with these settings penalise opacity in free space, where the scene has points."""
    return config.appearance == "grid" if config.free_space is None else config.free_space > 0


def trains_in_batches(config: TrainConfig) -> bool:
    """Whether long runs with these settings train in batches by default."""
    wanted = {option for option, is_wanted in TRAINED_WITH_SPLATS.items() if is_wanted(config)}
    return wanted <= set(TRAINED_IN_BATCHES)
