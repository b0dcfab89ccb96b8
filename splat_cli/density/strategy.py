"""What the training loop asks of a strategy that adds, moves and removes splats."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from splat_cli.optim.model import Model


class ErrorScorer(Protocol):
    """Looks at training views for a strategy."""

    def scores(self, num_views: int) -> tuple[Any, Any]:
        """Contribution and error of every splat over random training views, float32 [num] each, in pixels a view."""


class Strategy(Protocol):
    """One way to control density. Everything it draws at random comes from the generator it is given."""

    collects_stats: bool  # whether the iteration has to sum screen-space gradients
    noise_scale: float  # of langevin_noise each step; 0 for none

    def due(self, step: int) -> bool:
        """Whether `refine` is to run after this step."""

    def refine(self, step: int, model: Model, scorer: ErrorScorer, random: np.random.Generator) -> None:
        """Add, move and remove splats; never more than the hard cap."""
