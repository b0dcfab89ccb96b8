"""Default strategy of long runs: relocation of dead splats to regions of high error, by copying."""

from __future__ import annotations

from typing import Any

from splat_cli.density.mcmc import MCMCStrategy
from splat_cli.density.strategy import ErrorScorer


class ErrorCopyStrategy(MCMCStrategy):
    """As MCMCStrategy, with copies sampled by the error over several views."""

    def _errors(self, scorer: ErrorScorer) -> Any | None:
        return scorer.scores(self.config.score_views)[1]
