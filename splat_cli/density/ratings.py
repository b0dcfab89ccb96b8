"""Selection of splats: criteria (host side of cuda_src/density/ratings.cu; masks are bool) and weighted sampling.

Kernels of sampling: cuda_src/density/sampling.cu. Uniform random numbers come from the host, so that a seed gives the
same samples on every device.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from splat_cli.device import Backend, DeviceArray, ceil_div, launch
from splat_cli.gaussians.splats import OPACITY
from splat_cli.model.columns import partition
from splat_cli.model.model import Model

FILE = "density/ratings"


def mean_scores(backend: Backend, sums: DeviceArray, num: int, num_views: int) -> DeviceArray:
    """Means over views, float32 [2, num], of the sums [capacity, 2 or 4] of blend_scores (render/blend.py)."""
    means = backend.xp.empty((2, num), "float32")
    launch(backend, FILE, "mean_scores", num, sums, num, float(num_views), means, **_defines(sums))
    return means


def add_scores(backend: Backend, part: DeviceArray, sums: DeviceArray) -> None:
    """Add the sums `part` [num, 2 or 4] over some views to `sums` [capacity, 2 or 4] over other views."""
    launch(backend, FILE, "add_scores", len(part), part, len(part), sums, **_defines(sums))


def _defines(sums: DeviceArray) -> dict[str, int]:
    return {"FIXED_SUMS": 1} if sums.shape[1] == 4 else {}


@dataclass(frozen=True)
class Ratings:
    """Sampling weights of splats, and dead splats, which are too transparent to matter. Frozen splats are left out.

    weights: float32 [num], 0 for dead and frozen splats. num_candidates: number of positive weights. dead: int64
    indices. totals: uint32 [3] on the device: number of dead splats, of candidates, bits of the largest weight.
    """

    weights: DeviceArray
    num_candidates: int
    dead: DeviceArray
    totals: DeviceArray


def rate_splats(model: Model, prune_opacity: float, errors: DeviceArray | None = None) -> Ratings:
    """Rate splats by `errors` float32 [num], by default by opacities. Waits for the device."""
    backend, num, empty = model.backend, model.num, model.backend.xp.empty
    weights, dead, totals = empty(num, "float32"), empty(num, "bool"), backend.xp.zeros(3, "uint32")
    logits = model.splats.params[OPACITY]
    given = logits, errors, model.num_frozen, num, float(prune_opacity)
    launch(backend, FILE, "rate_splats", num, *given, weights, dead, totals)
    num_dead, num_candidates, _ = map(int, backend.download(totals))
    indices = partition(backend, dead, count=num_dead)[0] if num_dead else empty(0, "int64")
    return Ratings(weights, num_candidates, indices, totals)


def rate_gradients(model: Model, threshold: float) -> tuple[DeviceArray, DeviceArray]:
    """Mask of trained splats whose mean screen-space gradient reaches the threshold, and sort keys float32."""
    backend, num = model.backend, model.num
    chosen, keys = backend.xp.empty(num, "bool"), backend.xp.empty(num, "float32")
    stats = model.stats, model.stats.shape[1], model.num_without_moments
    launch(backend, FILE, "rate_gradients", num, *stats, model.num_frozen, num, float(threshold), chosen, keys)
    return chosen, keys


def split_by_size(model: Model, index: DeviceArray, max_scale: float) -> tuple[DeviceArray, DeviceArray]:
    """Partition of `index` int64 [K]: splats with a longest axis up to max_scale (world units), and larger ones."""
    backend, splats, count = model.backend, model.splats, len(index)
    small = backend.xp.empty(count, "bool")
    launch(backend, FILE, "mark_small", count, splats.params, splats.capacity, index, count, float(max_scale), small)
    return partition(backend, small, index)


def prune_mask(model: Model, min_opacity: float, max_scale: float) -> DeviceArray:
    """Mask [num] of trained splats less opaque than min_opacity or larger than max_scale (world units)."""
    backend, splats, num = model.backend, model.splats, model.num
    mask, limits = backend.xp.empty(num, "bool"), (float(min_opacity), float(max_scale))
    launch(backend, FILE, "mark_prunable", num, splats.params, splats.capacity, model.num_frozen, num, *limits, mask)
    return mask


SAMPLING = "density/sampling"


class WeightedSampler:
    """Samples with replacement, with probabilities proportional to the weights of `ratings`."""

    def __init__(self, backend: Backend, ratings: Ratings) -> None:
        self._backend, weights = backend, ratings.weights
        shares = backend.xp.empty(len(weights), "int64")
        launch(backend, SAMPLING, "integer_weights", len(weights), weights, ratings.totals[2:], len(weights), shares)
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
        launch(backend, SAMPLING, "limit_shares", num, logit_opacities, num, *limits, self._shares)
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
        launch(backend, SAMPLING, "search_samples", count, sums, len(sums), uniforms, count, samples)
        return samples


def sample_distinct(backend: Backend, ratings: Ratings, count: int, rng: np.random.Generator) -> DeviceArray:
    """Up to `count` distinct indices, int64 on the device, sampled by weight. Splats of weight 0 are never sampled.

    Efraimidis and Spirakis 2006, "Weighted random sampling with a reservoir".
    """
    num = len(ratings.weights)
    keys = backend.xp.empty(num, "float64")
    launch(backend, SAMPLING, "distinct_keys", num, ratings.weights, backend.upload(rng.random(num)), num, keys)
    return backend.xp.argsort(keys)[: min(count, ratings.num_candidates)]
