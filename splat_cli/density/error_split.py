"""The default in short runs: dead splats move to where the error is and split what they find there."""

from __future__ import annotations

from typing import Any

import numpy as np

from splat_cli.density.mcmc import ErrorCopyStrategy
from splat_cli.density.operations import sample_distinct, split_long_axis
from splat_cli.density.strategy import ErrorScorer
from splat_cli.optim.model import Model


class ErrorSplitStrategy(ErrorCopyStrategy):
    """The error-guided chain with halves in place of copies: copies that coincide need many steps of noise to part."""

    def refine(self, step: int, model: Model, scorer: ErrorScorer, random: np.random.Generator) -> None:
        weights, dead, num_new = self._demand(model, scorer)
        parents = sample_distinct(model.backend.xp, weights, len(dead) + num_new, random)
        self._split(model, parents, dead)

    def _split(self, model: Model, parents: Any, dead: Any) -> None:
        """One half stays in its parent's place, the other takes a dead splat's, or a new one."""
        one, other = split_long_axis(model.backend.xp, model.splats.params[:, parents])
        moved = min(len(dead), len(parents))
        model.reserve(model.num + len(parents) - moved, self.config.max_splats)
        model.replace(parents, one)
        model.replace(dead[:moved], other[:, :moved])
        model.append(other[:, moved:])
