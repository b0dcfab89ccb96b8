"""3DGS as Markov chain Monte Carlo (Kheradmand et al. 2024): relocation, growth to a maximum, exploration noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from splat_cli.density.operations import relocate
from splat_cli.density.periodic import PeriodicStrategy
from splat_cli.density.ratings import Ratings, rate_splats
from splat_cli.density.sampling import WeightedSampler
from splat_cli.density.strategy import ErrorScorer
from splat_cli.optim.columns import list_slots
from splat_cli.optim.model import Model


class MCMCStrategy(PeriodicStrategy):
    """Relocate dead splats to live ones sampled by opacity; grow by adding copies of sampled splats."""

    def refine(self, step: int, model: Model, scorer: ErrorScorer, rng: np.random.Generator) -> list[Any]:
        """See Strategy.refine."""
        ratings, num_new = self._demand(model, scorer)
        sampler, changed = WeightedSampler(model.backend, ratings), list[Any]()
        num_copies = self._num_copies(model, sampler, len(ratings.dead) + num_new)
        dead = ratings.dead[:num_copies]
        num_new = num_copies - len(dead)
        if 0 < len(dead) < model.num_trained:
            changed += self._relocate(model, sampler.sample(len(dead), rng), dead)
        if num_new > 0:
            parents = sampler.sample(num_new, rng)
            changed += self._relocate(model, parents, self._add(model, num_new))
        return changed

    def _demand(self, model: Model, scorer: ErrorScorer) -> tuple[Ratings, int]:
        """Ratings of all splats, and number of splats to add."""
        target = min(self.config.max_splats, int((1 + self.config.growth_rate) * model.num_trained))
        ratings = rate_splats(model, self.config.prune_opacity, self._errors(scorer))
        return ratings, max(target - model.num_trained, 0)

    def _errors(self, scorer: ErrorScorer) -> Any | None:
        """Sampling weights of copies, float32 [num], or None for opacities."""
        return None

    def _num_copies(self, model: Model, sampler: WeightedSampler, wanted: int) -> int:
        """Number of copies to make of `wanted` ones."""
        return wanted

    def _add(self, model: Model, count: int, holes: Any | None = None) -> Any:
        """Slots for `count` splats: `holes` first, then new columns, which it adds."""
        num_new, first = count - (0 if holes is None else len(holes)), model.num
        model.reserve(first + num_new, self.config.max_splats)  # may raise MemoryError: before anything is changed
        model.extend(num_new)
        return list_slots(model.backend, holes, first, count)

    def _relocate(self, model: Model, parents: Any, slots: Any) -> list[Any]:
        """Copy parents to slots; returns both."""
        relocate(model, parents, slots, self.config.prune_opacity)
        return [parents, slots]
