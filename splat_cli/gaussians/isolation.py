"""Isolation of splats: how many others are near a splat, and near the ends of a needle."""

import numpy as np

from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.attributes import rotations

_CORE = (0.1, 0.9)
"""Quantiles of the positions along each axis between which the core of the scene lies."""
_CELL = 0.02
"""Edge of the smallest cells, relative to the diagonal of the core."""
_WIDTH = 2.0
"""Edge of a splat's cells, at least, in standard deviations of its longest axis."""
_MIN_RATIO = 30.0
"""Ratio of the two longest axes of a needle."""
_ENDS = 2.0
"""Distance of a needle's ends from its centre, in standard deviations."""
_MAX_INDEX = 1 << 20
"""Cells along half an axis; positions farther away belong to no cell."""
MANY = 2**31 - 1
"""Number of neighbors of what is not judged: the ends of splats that are no needles."""


def isolation(splats: SplatArrays) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of other splats near the centre of each splat, and near the lonelier end if it is a needle: int64 [N].

    Near is what lies in the 27 cells around a point. A splat's cells are as wide as the splat, but at least 2 % of the
    scene's core, so that small splats on a surface of large ones have neighbors, and so do large ones in the distance.
    """
    num = len(splats)
    if num == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    means, scales = splats.means.astype(np.float64), np.exp(np.clip(splats.log_scales.astype(np.float64), -80, 80))
    low, high = np.quantile(means, _CORE, axis=0)
    cell = _CELL * float(np.linalg.norm(high - low)) or 1.0
    _, second, longest = np.sort(scales, axis=1).T
    near = _num_near(means, means, np.maximum(_WIDTH * longest, cell)) - 1
    at_ends = np.full(num, MANY)
    needles = np.flatnonzero((longest > _MIN_RATIO * second) & (longest > cell))
    if len(needles):
        axes = rotations(np, splats.quats[needles].T.astype(np.float64))
        along = axes[np.arange(len(needles)), :, scales[needles].argmax(axis=1)] * longest[needles, None]
        ends = [means[needles] + side * _ENDS * along for side in (-1, 1)]
        at_ends[needles] = np.min([_num_near(means, end, np.full(len(end), cell)) for end in ends], axis=0)
    return near, at_ends


def _num_near(means: np.ndarray, points: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Number of `means` [N, 3] in the 27 cells around each of `points` [P, 3], int64 [P].

    widths: [P], edges of the cells, rounded up to powers of two.
    """
    counts = np.zeros(len(points), np.int64)
    levels = np.ceil(np.log2(widths)).astype(int)
    around = np.stack(np.meshgrid(*[[-1, 0, 1]] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    for level in np.unique(levels):
        width, chosen = 2.0**level, np.flatnonzero(levels == level)
        occupied, numbers = np.unique(_cells(means, width), return_counts=True)
        for step in around:
            cells = _cells(points[chosen] + step * width, width)
            at = np.minimum(np.searchsorted(occupied, cells), len(occupied) - 1)
            counts[chosen] += np.where((occupied[at] == cells) & (cells >= 0), numbers[at], 0)
    return counts


def _cells(points: np.ndarray, width: float) -> np.ndarray:
    """Number of the cell of each of `points` [P, 3], int64 [P]; -1 beyond the grid."""
    with np.errstate(invalid="ignore", over="ignore"):
        indices = np.floor(points / width)
        inside = np.all(np.abs(indices) < _MAX_INDEX - 1, axis=1)
    x, y, z = np.where(inside[:, None], indices, 0).astype(np.int64).T + _MAX_INDEX
    return np.where(inside, (x * 2 * _MAX_INDEX + y) * 2 * _MAX_INDEX + z, -1)
