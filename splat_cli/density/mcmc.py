"""3DGS as Markov chain Monte Carlo (Kheradmand et al. 2024): relocate dead splats, grow to a cap, explore by noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from splat_cli.density.operations import OPACITY, draw, logit, share_out, sigmoid
from splat_cli.density.rounds import Rounds
from splat_cli.density.strategy import Probe
from splat_cli.gaussians.splats import LOG_SCALES
from splat_cli.optim.model import Model


class MarkovChain(Rounds):
    """Dead splats move to live ones, drawn by opacity; growth adds copies in the same way."""

    def refine(self, step: int, model: Model, probe: Probe, random: np.random.Generator) -> None:
        xp = model.backend.xp
        opacities = sigmoid(xp, model.splats.params[OPACITY, : model.num])
        alive = opacities > self.config.prune_opacity
        weights = xp.where(alive, self._need(opacities, probe), 0)
        dead = xp.nonzero(~alive)[0]
        if 0 < len(dead) < model.num:
            model.replace(dead, self._shared(model, draw(xp, weights, len(dead), random)))
        target = min(self.config.max_splats, int((1 + self.milestones.growth_rate) * model.num))
        if target > model.num:
            self._add(model, draw(xp, weights, target - model.num, random))

    def _need(self, opacities: Any, probe: Probe) -> Any:
        """How likely each splat is to get a copy, up to a factor: here its opacity [num]."""
        return opacities

    def _add(self, model: Model, parents: Any) -> None:
        model.reserve(
            model.num + len(parents), self.config.max_splats
        )  # first: it may fail, and nothing has changed yet
        model.append(self._shared(model, parents))

    def _shared(self, model: Model, parents: Any) -> Any:
        """Make room in each parent for its copies; returns the copies' columns [rows, len(parents)]."""
        xp, params = model.backend.xp, model.splats.params
        copies = xp.bincount(parents, minlength=model.num) + 1
        unique = xp.nonzero(copies > 1)[0]
        opacities = sigmoid(xp, params[OPACITY, unique])
        opacity, log_scales = share_out(xp, opacities, params[LOG_SCALES, unique], copies[unique].astype("float32"))
        params[OPACITY, unique] = logit(xp, xp.clip(opacity, self.config.prune_opacity, 1 - 1e-6))
        params[LOG_SCALES, unique] = log_scales
        model.moments.first[:, unique] = 0
        model.moments.second[:, unique] = 0
        return params[:, parents]


class ErrorGuidedChain(MarkovChain):
    """The default in long runs: the same, with copies where several views agree that the picture is wrong."""

    def _need(self, opacities: Any, probe: Probe) -> Any:
        return probe.scores(self.config.probe_views)[1]
