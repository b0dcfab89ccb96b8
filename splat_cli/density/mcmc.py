"""3DGS as Markov chain Monte Carlo (Kheradmand et al. 2024), and variants that copy or split splats by their error.

Dead splats are relocated, the model grows to a maximum, and noise explores.
"""

from __future__ import annotations

import numpy as np

from splat_cli.data.training_images import downscale_at
from splat_cli.density.operations import relocate, split_long_axis
from splat_cli.density.ratings import Ratings, WeightedSampler, rate_splats, sample_distinct
from splat_cli.density.strategy import ErrorScorer, PeriodicStrategy
from splat_cli.device import DeviceArray
from splat_cli.gaussians.splats import OPACITY
from splat_cli.model.model import Model


class MCMCStrategy(PeriodicStrategy):
    """Relocate dead splats to live ones sampled by opacity; grow by adding copies of sampled splats."""

    def refine(self, step: int, model: Model, scorer: ErrorScorer, rng: np.random.Generator) -> list[DeviceArray]:
        ratings, num_new = self._demand(step, model, scorer)
        sampler, changed = WeightedSampler(model.backend, ratings), list[DeviceArray]()
        num_copies = self._num_copies(model, sampler, len(ratings.dead) + num_new)
        dead = ratings.dead[:num_copies]
        num_new = num_copies - len(dead)
        if 0 < len(dead) < model.num_trained:
            changed += self._relocate(model, sampler.sample(len(dead), rng), dead)
        if num_new > 0:
            parents = sampler.sample(num_new, rng)
            changed += self._relocate(model, parents, model.add(num_new, self.config.max_splats))
        return changed

    def _demand(self, step: int, model: Model, scorer: ErrorScorer) -> tuple[Ratings, int]:
        """Ratings of all splats, and number of splats to add.

        If a run starts at several reduced sizes, it has at most half of the maximum at half the size: more splats cost
        quality (docs/experiments/start_and_images.md). With one reduced size, the last splats would come too late.
        """
        limit = self.config.max_splats
        if self.config.coarse_levels > 1:
            limit //= downscale_at(self.config, step)
        target = min(limit, int((1 + self.config.growth_rate) * model.num_trained))
        ratings = rate_splats(model, self.config.prune_opacity, self._errors(scorer))
        return ratings, max(target - model.num_trained, 0)

    def _errors(self, scorer: ErrorScorer) -> DeviceArray | None:
        """Sampling weights of copies, float32 [num], or None for opacities."""
        return None

    def _num_copies(self, model: Model, sampler: WeightedSampler, wanted: int) -> int:
        """Number of copies to make, at most `wanted`."""
        return wanted

    def _relocate(self, model: Model, parents: DeviceArray, slots: DeviceArray) -> list[DeviceArray]:
        """Copy parents to slots; returns both."""
        relocate(model, parents, slots, self.config.prune_opacity)
        return [parents, slots]


MIN_COPY_OPACITY = 0.05  # minimum opacity of a copy


class ErrorCopyStrategy(MCMCStrategy):
    """MCMCStrategy that samples the splats to copy by their share of the error over several views.

    A large transparent splat has a share in the error of all pixels that it covers. The number of its copies is limited
    by its opacity, which they share: copies that are too transparent are dead in the next round, and fill the lists of
    all tiles until then (docs/experiments/densification.md, "Copies of transparent splats").
    """

    def _num_copies(self, model: Model, sampler: WeightedSampler, wanted: int) -> int:
        return sampler.limit(model.splats.params[OPACITY], wanted, MIN_COPY_OPACITY)

    def _errors(self, scorer: ErrorScorer) -> DeviceArray | None:
        return scorer.scores(self.config.score_views)[1]


class ErrorSplitStrategy(ErrorCopyStrategy):
    """ErrorCopyStrategy with splits instead of copies: coincident copies need many steps of noise to separate."""

    def refine(self, step: int, model: Model, scorer: ErrorScorer, rng: np.random.Generator) -> list[DeviceArray]:
        ratings, num_new = self._demand(step, model, scorer)
        parents = sample_distinct(model.backend, ratings, len(ratings.dead) + num_new, rng)
        slots = model.add(len(parents), self.config.max_splats, ratings.dead[: len(parents)])
        split_long_axis(model, parents, slots)
        return [parents, slots]
