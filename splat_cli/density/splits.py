"""Fast growth: split what several views agree to be wrong, remove what is transparent."""

from __future__ import annotations

import numpy as np

from splat_cli.density.operations import OPACITY, sigmoid, split_long_axis
from splat_cli.density.rounds import Rounds
from splat_cli.density.strategy import Probe
from splat_cli.optim.model import Model


class ErrorGuidedSplits(Rounds):
    """Budgeted growth by splits of the splats with the largest share of the error; nothing moves, nothing is noisy."""

    def refine(self, step: int, model: Model, probe: Probe, random: np.random.Generator) -> None:
        xp, config = model.backend.xp, self.config
        _, error = probe.scores(config.probe_views)
        opacities = sigmoid(xp, model.splats.params[OPACITY, : model.num])
        room = self._budget(step) - model.num
        if room > 0:
            candidates = xp.nonzero((error > config.growth_error) & (opacities > 2 * config.prune_opacity))[0]
            limit = min(room, int(self.milestones.growth_rate * model.num))
            if len(candidates) > limit:
                candidates = candidates[xp.argsort(-error[candidates])[:limit]]
            if len(candidates):
                one, other = split_long_axis(xp, model.splats.params[:, candidates])
                model.reserve(model.num + len(candidates), config.max_splats)
                model.replace(candidates, one)
                model.append(other)
        grown = model.num - len(opacities)
        model.remove(xp.concatenate([opacities < config.prune_opacity, xp.zeros(grown, bool)]))

    def _budget(self, step: int) -> int:
        """Splats allowed now: growth is spread over the first part of density control."""
        begin, end = self.milestones.densify_start, self.milestones.densify_stop
        progress = (step - begin) / max(0.8 * (end - begin), 1)
        return int(self.config.max_splats * min(1.0, 0.25 + 0.75 * progress))
