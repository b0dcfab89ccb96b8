"""Base class of strategies with periodic rounds."""

from __future__ import annotations

from splat_cli.config import ResolvedConfig


class PeriodicStrategy:
    """Rounds every densify_interval steps, from densify_start to densify_stop."""

    collects_stats = False
    num_score_views = 0

    def __init__(self, config: ResolvedConfig, extent: float) -> None:
        self.config, self.extent = config, extent
        self.noise_scale = config.noise_scale

    def due(self, step: int) -> bool:
        """See Strategy.due."""
        c = self.config
        return c.densify_start < step < c.densify_stop and step % c.densify_interval == 0
