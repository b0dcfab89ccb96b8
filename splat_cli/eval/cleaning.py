"""Splats to clean away: floaters, splats that no photograph needs, lone splats and needles.

A floater is in the free space of training rays. A camera sees a point of the dataset along a ray, which the
photograph confirms by the point's colour; so a splat on the ray, well in front of the point, does not belong there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from splat_cli.device import Backend
from splat_cli.eval.evaluate import decoded_ahead
from splat_cli.gaussians.arrays import SplatArrays, opacities, rotations
from splat_cli.gaussians.splats import Splats
from splat_cli.joint.depth.free_space import FreeSpaceRays
from splat_cli.render.view import ViewRenderer, last_contributions
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.points.observations import Observations, observe
from splat_cli.scene.view import View

_MAX_DIFFERENCE = 0.08
"""Difference of a pixel and a point, root mean square over RGB 0 to 1, up to which the photograph shows the point."""
_MIN_RAYS = 1.0
"""Minimum number of clear rays through a floater."""
_BLOCKED = 1.0
"""A ray whose photograph shows something else, perhaps the splat, outweighs this many clear rays."""
_ENDING = 0.5
"""A ray that ends at the splat outweighs this many clear rays."""
_MAX_LOSS = 0.015
"""PSNR that floaters may cost on training photographs, dB: haze also explains differences between photographs. New
views lose about as much (docs/experiments/rendering.md, "Floaters that photographs need").
"""
_HIDING = 0.01
"""If floaters hide a larger share of the pixels, the other splats are judged again without them."""
_LIGHT = 0.001
"""Share of the pixels of all views that unneeded splats make together."""
_SEEN = 0.5
"""Minimum contribution to a view, in pixels, of a splat that the view sees."""
_FEW_VIEWS = 0.05
"""A lone splat or a needle is not a part of the scene if at most this share of the views sees it."""
_MIN_NEAR, _MIN_AT_ENDS = 3, 2
"""Minimum number of other splats near one that is not alone, and near the ends of a needle that lies on a surface."""
_FAINT = 0.005
"""Opacity below which splats are pruned in training (Kerbl et al. 2023, sec. 5.2)."""
_ROUNDS = 6
"""Number of halvings in the search for the floaters that may be removed."""
_CORE = (0.1, 0.9)
"""Quantiles of the positions along each axis between which the core of the scene lies."""
_CELL = 0.02
"""Edge of the smallest cells, relative to the diagonal of the core."""
_WIDTH = 2.0
"""Minimum edge of a splat's cells, in standard deviations of its longest axis."""
_MIN_RATIO = 30.0
"""Ratio of the two longest axes of a needle."""
_ENDS = 2.0
"""Distance of a needle's ends from its centre, in standard deviations."""
_MAX_INDEX = 1 << 20
"""Cells along half an axis; positions farther away belong to no cell."""
MANY = 2**31 - 1
"""Number of neighbours where they are not counted: at the ends of splats that are not needles."""


class Reason(IntEnum):
    """Reason to remove a splat."""

    NONE = 0
    FLOATER = 1
    UNNEEDED = 2
    ALONE = 3
    NEEDLE = 4


@dataclass(frozen=True)
class Photographed:
    """Training photographs and the dataset's points: float32 [P, 3], with colours uint8 [P, 3].

    psnr: PSNR of splats on some of the photographs, dB.
    """

    photographs: ImageSet
    points: np.ndarray
    colors: np.ndarray
    psnr: Callable[[SplatArrays], float]


@dataclass(frozen=True)
class _Support:
    """Counts for N splats over the training views: pixels covered, views that see them, rays that hit them.

    rays: float32 [N, 3], see FreeSpaceRays.count.
    """

    pixels: np.ndarray
    num_views: np.ndarray
    rays: np.ndarray


def reasons_by_views(
    backend: Backend,
    splats: SplatArrays,
    views: Sequence[View],
    seen: Photographed | None,
    strength: float,
    on_view: Callable[[int], object] = lambda count: None,
) -> np.ndarray:
    """The `Reason` of each splat, int8 [N], by the views on which the splats were trained.

    seen: None without photographs; no splat is then a floater. strength: factor of all limits, 1 by default.
    on_view: called with 1 for each view, when it is rendered first.
    """
    reasons = np.full(len(splats), Reason.NONE, np.int8)
    if len(splats) == 0:
        return reasons
    support = _support(backend, splats, views, seen, on_view)
    if seen is not None:
        reasons[_floaters(splats, support, seen, strength)] = Reason.FLOATER
    left = np.flatnonzero(reasons == Reason.NONE)
    pixels, num_views = support.pixels[left], support.num_views[left]
    if pixels.sum() < (1 - _HIDING) * support.pixels.sum():
        support = _support(backend, splats.select(left), views, None, lambda count: None)
        pixels, num_views = support.pixels, support.num_views
    reasons[left[is_unneeded(pixels, strength)]] = Reason.UNNEEDED
    staying = reasons[left] == Reason.NONE
    left, is_rare = left[staying], num_views[staying] <= max(1, _FEW_VIEWS * len(views))
    reasons[left] = np.where(is_rare, _reasons_by_isolation(splats.select(left), strength), Reason.NONE)
    return reasons


def is_unneeded(pixels: np.ndarray, strength: float) -> np.ndarray:
    """Whether each splat, [N], is one of those of the fewest `pixels` that together make at most 0.1 % of all."""
    order = np.argsort(pixels, kind="stable")
    sums = np.cumsum(pixels[order], dtype=np.float64)
    found = np.zeros(len(pixels), bool)
    found[order] = sums <= strength * _LIGHT * sums[-1:]  # an array, which may be empty
    return found


def reasons_by_shape(splats: SplatArrays, strength: float) -> np.ndarray:
    """The `Reason` of each splat, int8 [N], by opacities, sizes and neighbours alone; strength as above."""
    reasons = np.where(opacities(splats) < strength * _FAINT, Reason.UNNEEDED, Reason.NONE).astype(np.int8)
    staying = reasons == Reason.NONE
    reasons[staying] = _reasons_by_isolation(splats.select(staying), strength)
    return reasons


def _reasons_by_isolation(splats: SplatArrays, strength: float) -> np.ndarray:
    """ALONE, NEEDLE or NONE for each splat."""
    near, at_ends = isolation(splats)
    reasons = np.where(at_ends < strength * _MIN_AT_ENDS, Reason.NEEDLE, Reason.NONE)
    return np.where(near < strength * _MIN_NEAR, Reason.ALONE, reasons).astype(np.int8)


def _floaters(splats: SplatArrays, support: _Support, seen: Photographed, strength: float) -> np.ndarray:
    """Indices of splats through which photographs show points: all, or the smallest ones if more would cost too much.

    Large veils of haze in front of a camera belong to no surface, but the photographs need them if other splats have
    been trained behind them.
    """
    clear, blocked, ending = support.rays.T
    found = np.flatnonzero(strength * clear > _MIN_RAYS + _BLOCKED * blocked + _ENDING * ending)
    found = found[np.argsort(support.pixels[found], kind="stable")]
    if len(found) == 0:
        return found
    lowest = seen.psnr(splats) - strength * _MAX_LOSS

    def may_go(count: int) -> bool:
        kept = np.ones(len(splats), bool)
        kept[found[:count]] = False
        return bool(kept.any()) and seen.psnr(splats.select(kept)) >= lowest

    if may_go(len(found)):
        return found
    low, high = 0, len(found)
    for _ in range(_ROUNDS):
        middle = (low + high + 1) // 2
        low, high = (middle, high) if may_go(middle) else (low, middle)
    return found[:low]


def _support(
    backend: Backend,
    splats: SplatArrays,
    views: Sequence[View],
    seen: Photographed | None,
    on_view: Callable[[int], object],
) -> _Support:
    """Renders all views; without `seen`, no rays hit a splat."""
    xp, num = backend.xp, len(splats)
    renderer = ViewRenderer(backend, Splats.from_arrays(backend, splats), views, splats.antialiased)
    if seen is not None:
        found = observe(views, seen.points)
        rays, is_clear = FreeSpaceRays(backend, found), backend.upload(_is_clear(found, views, seen))
    pixels, num_views = xp.zeros(num, "float32"), xp.zeros(num, "int32")
    counts = xp.zeros((renderer.splats.capacity, 3), "float32")
    for index in range(len(views)):
        renderer.forward(index)
        contributions = last_contributions(renderer)
        pixels += contributions
        num_views += contributions >= _SEEN
        if seen is not None:
            rays.count(renderer.state, renderer.rasterizer, is_clear, counts)
        on_view(1)
    return _Support(*map(backend.download, (pixels, num_views, counts[:num])))


def _is_clear(found: Observations, views: Sequence[View], seen: Photographed) -> np.ndarray:
    """Whether the photograph shows the point, for each observation: int32 [points of all views]."""
    is_clear = np.zeros(len(found.pixels), np.int32)
    numbers = {view.name: number for number, view in enumerate(views)}
    for view, (image, mask) in zip(seen.photographs.views, decoded_ahead(seen.photographs), strict=True):
        number = numbers[view.name]
        rays = slice(found.begins[number], found.begins[number + 1])
        row, column = np.divmod(found.pixels[rays], view.width)
        shown = _shows(image, row, column, seen.colors[found.points[rays]])
        is_clear[rays] = shown if mask is None else shown & (mask[row, column] > 0)
    return is_clear


def _shows(image: np.ndarray, row: np.ndarray, column: np.ndarray, colors: np.ndarray) -> np.ndarray:
    """Whether one of the nine pixels around each place [P] of the image has about the given colour [P, 3]."""
    squares = np.full(len(row), np.inf, np.float32)
    for down in (-1, 0, 1):
        for right in (-1, 0, 1):
            near = np.clip(row + down, 0, len(image) - 1), np.clip(column + right, 0, image.shape[1] - 1)
            squares = np.minimum(squares, ((image[near].astype(np.float32) - colors) ** 2).mean(axis=1))
    return np.sqrt(squares) < 255 * _MAX_DIFFERENCE


def isolation(splats: SplatArrays) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of other splats near the centre of each splat, and near the lonelier end if it is a needle: int64 [N].

    Splats in the 27 cells around a point are near it. A splat's cells are as wide as the splat, but at least 2 % of the
    scene's core, so that small splats on a surface of large ones have neighbours, and so do large ones in the distance.
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
