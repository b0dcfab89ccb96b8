"""Selection and order of splats."""

from typing import Any

import numpy as np

from splat_cli.gaussians.arrays import SplatArrays, opacities
from splat_cli.gaussians.editing.move import with_origin
from splat_cli.gaussians.morton import curve_positions


def coverage(splats: SplatArrays) -> np.ndarray:
    """Logarithm of opacity times area of the two longer axes, float64 [N].

    Upper bound of the area that a splat covers; occlusion is ignored.
    """
    longer = np.sort(splats.log_scales.astype(np.float64), axis=1)[:, 1:].sum(axis=1)
    with np.errstate(divide="ignore"):
        return np.log(opacities(splats)) + longer


def keep_largest(splats: SplatArrays, strengths: np.ndarray, count: int) -> SplatArrays:
    """The `count` splats with the largest `strengths` [N], in their original order."""
    if len(splats) <= count:
        return splats
    return splats.select(np.sort(np.argsort(-strengths, kind="stable")[:count]))


def in_morton_order(splats: SplatArrays) -> SplatArrays:
    """The splats sorted along a Morton curve."""
    if len(splats) == 0:
        return splats
    return splats.select(np.argsort(curve_positions(splats.means), kind="stable"))


def merged(parts: list[SplatArrays]) -> SplatArrays:
    """All splats of one or more sets, relative to the first origin that a set has. Missing SH coefficients are zero."""
    origin = next((part.origin for part in parts if any(part.origin)), parts[0].origin)
    parts = [with_origin(part, origin) for part in parts]
    k = max(part.shN.shape[1] for part in parts)
    padded = [np.pad(part.shN, ((0, 0), (0, k - part.shN.shape[1]), (0, 0))) for part in parts]
    names = [name for name in parts[0].arrays() if name != "shN"]
    arrays: dict[str, Any] = {name: np.concatenate([part.arrays()[name] for part in parts]) for name in names}
    return SplatArrays(
        **arrays,
        shN=np.concatenate(padded),
        num_dropped=sum(part.num_dropped for part in parts),
        dropped_sh_degree=max(part.dropped_sh_degree for part in parts),
        antialiased=any(part.antialiased for part in parts),
        origin=origin,
    )
