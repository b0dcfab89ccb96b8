"""Weighted random sampling of splats: host side of cuda_src/density/sampling.cu.

Uniform random numbers come from the host, so that a seed gives the same samples on every device.
"""

from __future__ import annotations

import numpy as np

from splat_cli.density.ratings import Ratings
from splat_cli.device import Backend, DeviceArray
from splat_cli.device.launch import ceil_div, launch

FILE = "density/sampling"


class WeightedSampler:
    """Samples with replacement, with probabilities proportional to the weights of `ratings`."""

    def __init__(self, backend: Backend, ratings: Ratings) -> None:
        self._backend, weights = backend, ratings.weights
        shares = backend.xp.empty(len(weights), "int64")
        launch(backend, FILE, "integer_weights", len(weights), weights, ratings.totals[2:], len(weights), shares)
        self._shares, self._cumulative = shares, backend.xp.cumsum(shares)

    def limit(self, logit_opacities: DeviceArray, count: int, min_opacity: float) -> int:
        """Lower the weights of splats whose copies would be more transparent than min_opacity with `count` samples.

        logit_opacities: float32 [num]. Returns the number of samples to take, at most `count`, because
        other splats do not get the lost weight. Waits for the device.
        """
        total = self._total() if count else 0
        if not total:
            return count
        backend, num = self._backend, len(self._shares)
        limits = total / count, float(min_opacity)
        launch(backend, FILE, "limit_shares", num, logit_opacities, num, *limits, self._shares)
        self._cumulative = backend.xp.cumsum(self._shares)
        return ceil_div(count * self._total(), total)

    def _total(self) -> int:
        """Sum of all weights as integers."""
        return int(self._backend.download(self._cumulative[-1:]).sum())

    def sample(self, count: int, rng: np.random.Generator) -> DeviceArray:
        """Indices int64 [count] on the device."""
        backend, samples = self._backend, self._backend.xp.empty(count, "int64")
        uniforms = backend.upload(rng.random(count))
        sums = self._cumulative
        launch(backend, FILE, "search_samples", count, sums, len(sums), uniforms, count, samples)
        return samples


def sample_distinct(backend: Backend, ratings: Ratings, count: int, rng: np.random.Generator) -> DeviceArray:
    """Up to `count` distinct indices, int64 on the device, sampled by weight. Splats of weight 0 are never sampled.

    Efraimidis and Spirakis 2006, "Weighted random sampling with a reservoir".
    """
    num = len(ratings.weights)
    keys = backend.xp.empty(num, "float64")
    launch(backend, FILE, "distinct_keys", num, ratings.weights, backend.upload(rng.random(num)), num, keys)
    return backend.xp.argsort(keys)[: min(count, ratings.num_candidates)]
