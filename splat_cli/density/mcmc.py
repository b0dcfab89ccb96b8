"""3DGS as Markov chain Monte Carlo (Kheradmand et al. 2024): relocate dead splats, grow to a cap, explore by noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from splat_cli.density.operations import logit, relocation_params, sample_weighted, sigmoid
from splat_cli.density.periodic import PeriodicStrategy
from splat_cli.density.strategy import ErrorScorer
from splat_cli.gaussians.splats import LOG_SCALES, OPACITY
from splat_cli.optim.model import Model


class MCMCStrategy(PeriodicStrategy):
    """Dead splats move to live ones, drawn by opacity; growth adds copies in the same way."""

    def refine(self, step: int, model: Model, scorer: ErrorScorer, random: np.random.Generator) -> None:
        weights, dead, num_new = self._demand(model, scorer)
        xp = model.backend.xp
        if 0 < len(dead) < model.num:
            model.replace(dead, self._shared(model, sample_weighted(xp, weights, len(dead), random)))
        if num_new > 0:
            self._add(model, sample_weighted(xp, weights, num_new, random))

    def _demand(self, model: Model, scorer: ErrorScorer) -> tuple[Any, Any, int]:
        """How likely each splat is to get a copy, up to a factor [num]; indices of dead splats; splats to be added."""
        xp = model.backend.xp
        opacities = sigmoid(xp, model.splats.params[OPACITY, : model.num])
        alive = opacities > self.config.prune_opacity
        target = min(self.config.max_splats, int((1 + self.config.growth_rate) * model.num))
        weights = xp.where(alive, self._need(opacities, scorer), 0)
        return weights, xp.nonzero(~alive)[0], max(target - model.num, 0)

    def _need(self, opacities: Any, scorer: ErrorScorer) -> Any:
        """The weight of a live splat in the draw: here its opacity [num]."""
        return opacities

    def _add(self, model: Model, parents: Any) -> None:
        # room first: making it may fail, and nothing has changed yet
        model.reserve(model.num + len(parents), self.config.max_splats)
        model.append(self._shared(model, parents))

    def _shared(self, model: Model, parents: Any) -> Any:
        """Make room in each parent for its copies; returns the copies' columns [rows, len(parents)]."""
        xp, params = model.backend.xp, model.splats.params
        copies = xp.bincount(parents, minlength=model.num) + 1
        unique = xp.nonzero(copies > 1)[0]
        opacities = sigmoid(xp, params[OPACITY, unique])
        opacity, log_scales = relocation_params(
            xp, opacities, params[LOG_SCALES, unique], copies[unique].astype("float32")
        )
        params[OPACITY, unique] = logit(xp, xp.clip(opacity, self.config.prune_opacity, 1 - 1e-6))
        params[LOG_SCALES, unique] = log_scales
        model.moments.first[:, unique] = 0
        model.moments.second[:, unique] = 0
        return params[:, parents]


class ErrorCopyStrategy(MCMCStrategy):
    """The default in long runs: the same, with copies where several views agree that the picture is wrong."""

    def _need(self, opacities: Any, scorer: ErrorScorer) -> Any:
        return scorer.scores(self.config.score_views)[1]
