"""Options that train more than splats, or not all of them."""

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
    "--free-space": lambda config: config.free_space > 0,
}
"""Options that several GPUs do not train, since each trains for itself -> whether the settings ask for it."""


def trains_more_than_splats(config: TrainConfig) -> bool:
    """Whether the settings ask for one of these options."""
    return any(is_wanted(config) for is_wanted in TRAINED_WITH_SPLATS.values())
