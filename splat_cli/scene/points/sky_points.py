"""Points of the sky: far away, in directions in which photographs from several places show the same colour.

Structure from motion and plane sweeps find no points in a plain sky. Without splats there, training fills it with
floaters near the cameras, which held-out views see from aside. Directions of plain surfaces that are near can agree,
too: their points end up behind these surfaces, where no view shows them.
"""

import numpy as np

from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.plane_sweep.grayscale import nearest_mask, small_copies
from splat_cli.scene.view import View, evenly_spread

_DIRECTIONS = 20_000  # 1.4 degrees apart
_MAX_VIEWS = 150  # evenly spread over all
_SIDE = 128  # px of the photographs, downscaled again: a pixel is about half as wide as directions are apart
_DISTANCE = 5.0  # relative to that of the farthest points but 2 %, from the middle of the cameras
_MIN_VIEWS = 4
_TOLERANCE = 25  # in each channel, from the median of the views
_AGREEING = 0.6  # share of the views that see a direction
_UNSEEN = -1


def sky_points(photographs: ImageSet, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points float32 [P, 3] and colours uint8 [P, 3]; none if no direction agrees. points: of the scene, [N, 3]."""
    chosen = evenly_spread(range(len(photographs.views)), _MAX_VIEWS)
    small = small_copies(photographs, chosen, _SIDE, nearest_mask)
    middle = np.median([view.center for view in small.views], axis=0)
    radius = _DISTANCE * np.quantile(np.linalg.norm(points - middle, axis=1), 0.98)
    sphere = middle + radius * sphere_directions(_DIRECTIONS)
    seen = np.array([_colors_of(sphere, *photograph) for photograph in zip(*small[:3], strict=True)])
    directions = np.flatnonzero((seen[:, :, 0] != _UNSEEN).sum(axis=0) >= _MIN_VIEWS)
    colors, agree = _agreement(seen[:, directions])
    return sphere[directions[agree]].astype(np.float32), colors[agree]


def sphere_directions(count: int) -> np.ndarray:
    """Evenly spread unit vectors float64 [count, 3], on a spiral with the golden angle between neighbours."""
    number = np.arange(count)
    z, angle = 1 - (2 * number + 1) / count, number * np.pi * (3 - 5**0.5)
    width = np.sqrt(1 - z * z)
    return np.stack([width * np.cos(angle), width * np.sin(angle), z], axis=1)


def _colors_of(points: np.ndarray, view: View, image: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    """int16 [N, 3], colours of the photograph at the points; _UNSEEN outside of it and its mask."""
    pixels, _, inside = view.project(points)
    colors = np.full((len(points), 3), _UNSEEN, np.int16)
    rows = np.flatnonzero(inside)
    columns, lines = pixels[rows].astype(int).T
    if mask is not None:
        used = mask[lines, columns] > 0
        rows, columns, lines = rows[used], columns[used], lines[used]
    colors[rows] = image[lines, columns]
    return colors


def _agreement(seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Median colours uint8 [D, 3], and bool [D]: most views show them. seen: int16 [V, D, 3]."""
    is_seen = seen[:, :, 0] != _UNSEEN
    num_seen = is_seen.sum(axis=0)
    middle = len(seen) - num_seen + num_seen // 2  # sorted, the views that do not see a direction come first
    medians = np.take_along_axis(np.sort(seen, axis=0), middle[None, :, None], axis=0)[0]
    close = is_seen & (np.abs(seen - medians).max(axis=2) <= _TOLERANCE)
    return medians.astype(np.uint8), close.sum(axis=0) >= _AGREEING * num_seen
