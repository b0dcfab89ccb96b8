"""Default strategy of long runs: relocation of dead splats to regions of high error, by copying."""

from __future__ import annotations

from typing import Any

from splat_cli.config import ResolvedConfig
from splat_cli.density.mcmc import MCMCStrategy
from splat_cli.density.sampling import WeightedSampler
from splat_cli.density.strategy import ErrorScorer
from splat_cli.gaussians.splats import OPACITY
from splat_cli.optim.model import Model

MIN_COPY_OPACITY = 0.05  # of a copy


class ErrorCopyStrategy(MCMCStrategy):
    """MCMCStrategy whose copies are of splats sampled by their share of the error over several views.

    A large transparent splat has a share in the error of all pixels that it covers. It gets no more copies than its
    opacity can be shared among: copies at the limit of opacity are dead in the next round, and until then fill the
    lists of all tiles (docs/experiments/densification.md, "Copies of transparent splats").
    """

    def __init__(self, config: ResolvedConfig, extent: float) -> None:
        super().__init__(config, extent)
        self.num_score_views = config.score_views

    def _num_copies(self, model: Model, sampler: WeightedSampler, wanted: int) -> int:
        return sampler.limit(model.splats.params[OPACITY], wanted, MIN_COPY_OPACITY)

    def _errors(self, scorer: ErrorScorer) -> Any | None:
        return scorer.scores(self.num_score_views)[1]
