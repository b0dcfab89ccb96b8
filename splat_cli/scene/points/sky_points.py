"""Points of the sky: far away, in directions where photographs from several places show the same colour.

Structure from motion and plane sweeps find no points in a plain sky. Without splats there, training fills it with
floaters near the cameras, which held-out views see from the side. Plain walls have the same colour in all photographs,
too, so no points are added behind known points.
"""

import numpy as np

from splat_cli.device import ceil_div
from splat_cli.scene.images.downscale import nearest_mask, small_copies
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.view import View, evenly_spread

_DIRECTIONS = 20_000  # 1.4 degrees apart
_MAX_VIEWS = 150  # evenly spread over all
_SIDE = 128  # px of the downscaled photographs: a pixel is about half as wide as the spacing of directions
_DISTANCE = 5.0  # relative to the 98th percentile of the points' distances from the middle of the cameras
_SOME_POINTS = 20_000  # for the test whether they cover the sky
_CELLS = 40  # across the longer side of a photograph: a point covers its cell
_MIN_VIEWS = 4
_TOLERANCE = 25  # in each channel, from the median of the views
_AGREEING = 0.6  # share of the views that see a direction
_FEWEST = 50  # directions; fewer agree by chance
_UNSEEN, _COVERED = -1, -2


def sky_points(photographs: ImageSet, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points float32 [P, 3] and colours uint8 [P, 3]; empty if few directions agree. points: known ones, [N, 3]."""
    chosen = evenly_spread(range(len(photographs.views)), _MAX_VIEWS)
    small = small_copies(photographs, chosen, _SIDE, nearest_mask)
    middle = np.median([view.center for view in small.views], axis=0)
    radius = _DISTANCE * np.quantile(np.linalg.norm(points - middle, axis=1), 0.98)
    sphere = middle + radius * sphere_directions(_DIRECTIONS)
    some = points[:: ceil_div(len(points), _SOME_POINTS)]
    seen = np.array([_colors_of(sphere, some, *photograph) for photograph in zip(*small[:3], strict=True)])
    directions = np.flatnonzero((seen[:, :, 0] >= 0).sum(axis=0) >= _MIN_VIEWS)
    colors, agree = _agreement(seen[:, directions])
    if agree.sum() < _FEWEST:
        agree[:] = False
    return sphere[directions[agree]].astype(np.float32), colors[agree]


def sphere_directions(count: int) -> np.ndarray:
    """Evenly spread unit vectors float64 [count, 3], on a spiral with the golden angle between neighbours."""
    number = np.arange(count)
    z, angle = 1 - (2 * number + 1) / count, number * np.pi * (3 - 5**0.5)
    width = np.sqrt(1 - z * z)
    return np.stack([width * np.cos(angle), width * np.sin(angle), z], axis=1)


def _colors_of(
    sphere: np.ndarray, points: np.ndarray, view: View, image: np.ndarray, mask: np.ndarray | None
) -> np.ndarray:
    """int16 [N, 3], colours of the photograph in the directions of `sphere` [N, 3]: _COVERED where points are,
    _UNSEEN outside of picture and mask."""
    colors = np.full((len(sphere), 3), _UNSEEN, np.int16)
    rows, (lines, columns) = _visible_pixels(view, sphere)
    if mask is not None:
        used = mask[lines, columns] > 0
        rows, lines, columns = rows[used], lines[used], columns[used]
    size = ceil_div(max(view.width, view.height), _CELLS)
    covered = np.zeros((view.height // size + 1, view.width // size + 1), bool)
    covered[tuple(_visible_pixels(view, points)[1] // size)] = True
    colors[rows] = np.where(covered[lines // size, columns // size, None], np.int16(_COVERED), image[lines, columns])
    return colors


def _visible_pixels(view: View, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indices [P] of the points in the picture, and their pixels int [2, P] (row, column)."""
    pixels, _, inside = view.project(points)
    return np.flatnonzero(inside), pixels[inside, ::-1].astype(int).T


def _agreement(seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Median colours uint8 [D, 3], and bool [D]: most views show them. seen: int16 [V, D, 3]."""
    is_open = seen[:, :, 0] >= 0
    num_open = is_open.sum(axis=0)
    middle = len(seen) - num_open + num_open // 2  # sorted, the views without a colour come first
    medians = np.take_along_axis(np.sort(seen, axis=0), middle[None, :, None], axis=0)[0]
    close = is_open & (np.abs(seen - medians).max(axis=2) <= _TOLERANCE)
    return medians.astype(np.uint8), close.sum(axis=0) >= _AGREEING * (seen[:, :, 0] != _UNSEEN).sum(axis=0)
