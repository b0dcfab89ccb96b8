"""The default: split what several views agree to be wrong, remove what no view needs."""

from __future__ import annotations

import numpy as np

from splat_cli.config import TrainConfig
from splat_cli.density.operations import OPACITY, sigmoid, split_long_axis
from splat_cli.density.strategy import Probe
from splat_cli.optim.model import Model


class ErrorGuided:
    """Budgeted growth guided by error shared out over splats, pruning by contribution."""

    collects_stats = False

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.noise_scale = config.noise_scale

    def due(self, step: int) -> bool:
        c = self.config
        return c.densify_start < step < c.densify_stop and step % c.densify_interval == 0

    def refine(self, step: int, model: Model, probe: Probe, random: np.random.Generator) -> None:
        xp, c = model.backend.xp, self.config
        weight, error = probe.scores(c.probe_views)
        opacities = sigmoid(xp, model.splats.params[OPACITY, : model.num])
        room = self._budget(step) - model.num
        if room > 0:
            candidates = xp.nonzero((error > c.growth_error) & (opacities > 2 * c.prune_opacity))[0]
            limit = min(room, int(c.growth_rate * model.num))
            if len(candidates) > limit:
                candidates = candidates[xp.argsort(-error[candidates])[:limit]]
            if len(candidates):
                one, other = split_long_axis(xp, model.splats.params[:, candidates])
                model.reserve(model.num + len(candidates), c.max_splats)
                model.replace(candidates, one)
                model.append(other)
        grown = model.num - len(opacities)
        doomed = opacities < c.prune_opacity
        doomed |= (weight < c.prune_weight) & (opacities < 0.5)
        model.remove(xp.concatenate([doomed, xp.zeros(grown, bool)]))

    def _budget(self, step: int) -> int:
        """Splats allowed now: growth is spread over the first part of density control."""
        c = self.config
        progress = (step - c.densify_start) / max(0.8 * (c.densify_stop - c.densify_start), 1)
        return int(c.max_splats * min(1.0, 0.25 + 0.75 * progress))
