"""What the strategies without screen-space statistics share: when their rounds come."""

from __future__ import annotations

from splat_cli.config import TrainConfig
from splat_cli.milestones import milestones


class PeriodicStrategy:
    """PeriodicStrategy every densify_interval steps, between the milestones of the run."""

    collects_stats = False

    def __init__(self, config: TrainConfig) -> None:
        self.config, self.milestones = config, milestones(config)
        self.noise_scale = self.milestones.noise_scale

    def due(self, step: int) -> bool:
        inside = self.milestones.densify_start < step < self.milestones.densify_stop
        return inside and step % self.config.densify_interval == 0
