"""Adaptive density control of 3DGS (Kerbl et al. 2023, sec. 5.2), with a hard cap."""

from __future__ import annotations

import numpy as np

from splat_cli.config import ResolvedConfig
from splat_cli.density.operations import reset_opacities, split_random
from splat_cli.density.ratings import prune_mask, rate_gradients, split_by_size
from splat_cli.density.strategy import ErrorScorer, Strategy
from splat_cli.model.columns import partition
from splat_cli.model.model import Model

DENSE_SCALE = 0.01  # fraction of the scene's extent; smaller splats are cloned, larger splats are split
HUGE_SCALE = 0.1  # fraction of the scene's extent; larger splats are pruned after the first opacity reset
RESET_OPACITY = 0.01


class ADCStrategy(Strategy):
    """Clone or split splats with large screen-space gradients, prune transparent ones, reset opacities periodically."""

    collects_stats, tracks_unseen = True, False
    noise_scale = 0.0

    def __init__(self, config: ResolvedConfig, extent: float) -> None:
        self.config, self.extent = config, extent

    def due(self, step: int) -> bool:
        c = self.config
        inside = c.densify_start < step < c.densify_stop
        return inside and (step % c.densify_interval == 0 or step % c.opacity_reset_interval == 0)

    def refine(self, step: int, model: Model, scorer: ErrorScorer, rng: np.random.Generator) -> None:
        if step % self.config.densify_interval == 0:
            self._grow(model, rng)
            self._prune(model, after_reset=step > self.config.opacity_reset_interval)
            model.clear_stats()
        if step % self.config.opacity_reset_interval == 0:
            reset_opacities(model, RESET_OPACITY)

    def _grow(self, model: Model, rng: np.random.Generator) -> None:
        mask, keys = rate_gradients(model, self.config.grad_threshold)
        chosen, _ = partition(model.backend, mask)
        room = max(self.config.max_splats - model.num_trained, 0)
        if len(chosen) > room:
            chosen = model.backend.xp.argsort(keys)[:room]
        clones, parents = split_by_size(model, chosen, DENSE_SCALE * self.extent)
        slots = model.add(len(chosen), self.config.max_splats)
        model.copy(clones, slots[: len(clones)])
        split_random(model, parents, slots[len(clones) :], rng)

    def _prune(self, model: Model, after_reset: bool) -> None:
        max_scale = HUGE_SCALE * self.extent if after_reset else np.inf
        model.remove(prune_mask(model, self.config.prune_opacity, max_scale))
