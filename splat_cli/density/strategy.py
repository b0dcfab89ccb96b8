"""Interface of densification strategies, and the base of those that are due periodically."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from splat_cli.config import ResolvedConfig
from splat_cli.device import DeviceArray
from splat_cli.model.model import Model


class ErrorScorer(Protocol):
    """Scores of splats over training views."""

    def scores(self, num_views: int) -> tuple[DeviceArray, DeviceArray]:
        """Blending weight and share of the error over random training views, float32 [num] each, in pixels per view."""


class Strategy(Protocol):
    """A densification strategy. All random numbers come from the generator passed to `refine`."""

    collects_stats: bool  # training steps sum screen-space gradients in `Model.stats`
    tracks_unseen: bool  # training steps write `Model.last_seen`, which shares memory with these sums
    noise_scale: float  # scale of the exploration noise in each step; 0: no noise

    def due(self, step: int) -> bool:
        """Whether `refine` is called after this step."""

    def refine(
        self, step: int, model: Model, scorer: ErrorScorer, rng: np.random.Generator
    ) -> Sequence[DeviceArray] | None:
        """Add, relocate and prune splats, up to config.max_splats. Frozen splats do not change and do not count.

        model: geometry and statistics of all splats. With several ranks it has no colours: the trainer moves these in
        the same way. Each rank calls this with the same arguments and must do the same.

        Returns indices int64 [K] on the device, with repetition, of all changed splats; None if any may have changed.
        """


class PeriodicStrategy(Strategy):
    """Rounds every densify_interval steps, from densify_start to densify_stop."""

    collects_stats = False

    def __init__(self, config: ResolvedConfig, extent: float) -> None:
        self.config, self.extent = config, extent
        self.noise_scale = config.noise_scale
        self.tracks_unseen = config.relocate_unseen and not self.collects_stats

    def due(self, step: int) -> bool:
        c = self.config
        return c.densify_start < step < c.densify_stop and step % c.densify_interval == 0
