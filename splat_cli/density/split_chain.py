"""The default in short runs: dead splats move to where the error is and split what they find there."""

from __future__ import annotations

from typing import Any

import numpy as np

from splat_cli.density.mcmc import ErrorGuidedChain
from splat_cli.density.operations import OPACITY, draw_distinct, sigmoid, split_long_axis
from splat_cli.density.strategy import Probe
from splat_cli.optim.model import Model


class ErrorGuidedSplitChain(ErrorGuidedChain):
    """The error-guided chain with halves in place of copies: copies that coincide need many steps of noise to part."""

    def refine(self, step: int, model: Model, probe: Probe, random: np.random.Generator) -> None:
        xp = model.backend.xp
        opacities = sigmoid(xp, model.splats.params[OPACITY, : model.num])
        alive = opacities > self.config.prune_opacity
        weights = xp.where(alive, self._need(opacities, probe), 0)
        dead = xp.nonzero(~alive)[0]
        target = min(self.config.max_splats, int((1 + self.milestones.growth_rate) * model.num))
        parents = draw_distinct(xp, weights, len(dead) + max(target - model.num, 0), random)
        self._split(model, parents, dead)

    def _split(self, model: Model, parents: Any, dead: Any) -> None:
        """One half stays in its parent's place, the other takes a dead splat's, or a new one."""
        one, other = split_long_axis(model.backend.xp, model.splats.params[:, parents])
        moved = min(len(dead), len(parents))
        model.reserve(model.num + len(parents) - moved, self.config.max_splats)
        model.replace(parents, one)
        model.replace(dead[:moved], other[:, :moved])
        model.append(other[:, moved:])
