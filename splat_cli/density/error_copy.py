"""Default strategy of long runs: relocation of dead splats to regions of high error, by copying."""

from __future__ import annotations

from typing import Any

from splat_cli.config import ResolvedConfig
from splat_cli.density.mcmc import MCMCStrategy
from splat_cli.density.strategy import ErrorScorer


class ErrorCopyStrategy(MCMCStrategy):
    """As MCMCStrategy, with copies sampled by the error over several views."""

    def __init__(self, config: ResolvedConfig, extent: float) -> None:
        super().__init__(config, extent)
        self.num_score_views = config.score_views

    def _errors(self, scorer: ErrorScorer) -> Any | None:
        return scorer.scores(self.num_score_views)[1]
