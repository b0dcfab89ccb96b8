"""What strategies do to splats: activations, copies, splits, relocation. Columns are raw parameters [rows, K]."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np

from splat_cli.gaussians.rotations import rotations
from splat_cli.gaussians.splats import LOG_SCALES, MEANS, OPACITY, QUATS

MAX_COPIES = 51  # of one splat in a round of relocation, as in 3DGS-MCMC


def sigmoid(xp: Any, logits: Any) -> Any:
    return 1 / (1 + xp.exp(-logits))


def logit(xp: Any, opacities: Any) -> Any:
    opacities = xp.clip(opacities, 1e-6, 1 - 1e-6)
    return xp.log(opacities / (1 - opacities))


def split_random(xp: Any, columns: Any, random: np.random.Generator) -> Any:
    """Two children a splat, drawn from its own distribution and 1.6 times smaller (Kerbl et al. 2023, sec. 5.2)."""
    children = xp.concatenate([columns, columns], axis=1)
    scales = xp.exp(children[LOG_SCALES])
    local = xp.asarray(random.standard_normal(scales.shape, np.float32)) * scales
    children[MEANS] += xp.einsum("kij,jk->ik", rotations(xp, children[QUATS]), local)
    children[LOG_SCALES] -= np.log(1.6)
    return children


def split_long_axis(xp: Any, columns: Any) -> tuple[Any, Any]:
    """Two halves of each splat along its longest axis.

    The halves sit half a standard deviation to either side and are half as long; the overlap that remains is made up by
    60 % of the opacity (as Deng et al. 2024, "Efficient density control", argue for deterministic splits).
    """
    scales = xp.exp(columns[LOG_SCALES])
    longest = xp.argmax(scales, axis=0)
    k = xp.arange(columns.shape[1])
    axis = rotations(xp, columns[QUATS])[k, :, longest].T
    offset = axis * (0.5 * scales[longest, k])
    halves = columns.copy()
    halves[LOG_SCALES] += np.float32(np.log(0.85))
    halves[3 + longest, k] += np.float32(np.log(0.5 / 0.85))
    halves[OPACITY] = logit(xp, 0.6 * sigmoid(xp, columns[OPACITY]))
    one, other = halves, halves.copy()
    one[MEANS] += offset
    other[MEANS] -= offset
    return one, other


def relocation_params(xp: Any, opacities: Any, log_scales: Any, copies: Any) -> tuple[Any, Any]:
    """Opacity [K] and log_scales [3, K] of each of `copies` [K] splats that together look like the one they replace.

    3DGS-MCMC (Kheradmand et al. 2024), eq. 9 of the supplement.
    """
    copies = xp.clip(copies, 1, MAX_COPIES)
    new = 1 - (1 - opacities) ** (1 / copies)
    total = xp.zeros_like(opacities)
    for i in range(1, int(copies.max()) + 1):
        term = sum(comb(i - 1, k) * (-1) ** k / (k + 1) ** 0.5 * new ** (k + 1) for k in range(i))
        total += xp.where(i <= copies, term, 0)
    factor = opacities / xp.maximum(total, 1e-8)
    return new, log_scales + xp.log(xp.maximum(factor, 1e-8))


def sample_weighted(xp: Any, weights: Any, count: int, random: np.random.Generator) -> Any:
    """`count` indices with replacement, with probability proportional to `weights` [K]."""
    shares = weights.astype("float64") / xp.maximum(weights.max(), 1e-30)
    cumulative = xp.cumsum((shares * 2.0**36).astype("int64"))  # integers: a parallel sum of floats rounds as it likes
    at = (xp.asarray(random.random(count)) * cumulative[-1]).astype("int64")
    return xp.minimum(xp.searchsorted(cumulative, at, side="right"), len(weights) - 1)


def sample_distinct(xp: Any, weights: Any, count: int, random: np.random.Generator) -> Any:
    """Up to `count` different indices, likelier with larger `weights` [K], those of weight 0 never.

    Efraimidis and Spirakis 2006: the largest of u^(1 / weight), here by their logarithms.
    """
    keys = xp.log(xp.asarray(random.random(len(weights)))) / xp.maximum(weights, 1e-12)
    chosen = xp.argsort(-keys)[:count]
    return chosen[weights[chosen] > 0]
