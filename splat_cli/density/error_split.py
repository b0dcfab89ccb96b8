"""Default strategy of short runs: relocation of dead splats to regions of high error, by splitting."""

from __future__ import annotations

from typing import Any

import numpy as np

from splat_cli.density.error_copy import ErrorCopyStrategy
from splat_cli.density.operations import split_long_axis
from splat_cli.density.sampling import sample_distinct
from splat_cli.density.strategy import ErrorScorer
from splat_cli.optim.model import Model


class ErrorSplitStrategy(ErrorCopyStrategy):
    """ErrorCopyStrategy with splits in place of copies: coincident copies need many steps of noise to separate."""

    def refine(self, step: int, model: Model, scorer: ErrorScorer, rng: np.random.Generator) -> list[Any]:
        """See Strategy.refine."""
        ratings, num_new = self._demand(model, scorer)
        parents = sample_distinct(model.backend, ratings, len(ratings.dead) + num_new, rng)
        slots = self._add(model, len(parents), ratings.dead[: len(parents)])
        split_long_axis(model, parents, slots)
        return [parents, slots]
