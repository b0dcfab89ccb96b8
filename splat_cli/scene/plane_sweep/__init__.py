"""Plane-sweep stereo (Collins 1996): points from photographs and poses, at random pixels.

The first stage searches a few pixels of very small photographs, at all depths compatible with the distances between
cameras; its points give each view's depth range and neighbours. The second uses larger photographs, at even steps of
disparity. A pixel yields a point only if several views agree on a single depth.
"""

from collections.abc import Sequence

import numpy as np

from splat_cli.device import Backend
from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.plane_sweep.grayscale import GrayscaleImages, nearest_mask, small_copies
from splat_cli.scene.plane_sweep.ncc import RADIUS, Surfaces, find_surfaces
from splat_cli.scene.plane_sweep.view_selection import disparity, neighbors_by_points, neighbors_by_position
from splat_cli.scene.view import View, evenly_spread
from splat_cli.terminal.console import Counting

MIN_POINTS = 50
"""Minimum number of points; with fewer, the sweep has failed."""
MAX_VIEWS = 400
"""Maximum number of photographs, evenly spread over all."""
_ROUGH_SIDE, _ROUGH_PIXELS, _ROUGH_DEPTHS = 160, 8000, 160
_FARTHEST = 1000.0  # maximum depth over minimum depth, in the first stage
_ROUGH_SCORE, _ROUGH_MARGIN = 0.9, 0.05
SIDE, _SCORE, _MARGIN = 512, 0.75, 0.1
_STEP = 1.5  # px of disparity between consecutive depths
_DEPTHS = (32, 256)  # minimum and maximum number
_PIXELS_A_TRY = 4  # on average


def sweep_copies(photographs: ImageSet) -> ImageSet:
    """Downscaled copies of some photographs, evenly spread over all, for plane_sweep_points."""
    return small_copies(photographs, evenly_spread(range(len(photographs.views)), MAX_VIEWS), SIDE, nearest_mask)


def plane_sweep_points(
    backend: Backend, small: ImageSet, count: int, rng: np.random.Generator, counting: Counting
) -> tuple[np.ndarray, np.ndarray]:
    """Points float32 [P, 3] and colours uint8 [P, 3], from up to `count` random pixels; empty if it fails.

    counting: shows the number of pixels searched.
    """
    rough = _rough_points(backend, small, rng)
    if len(rough) < MIN_POINTS:
        return np.zeros((0, 3), np.float32), np.zeros((0, 3), np.uint8)
    grays = GrayscaleImages.of(backend, small.views, small.images, SIDE)
    neighbors = neighbors_by_points(grays.views, rough)
    num_depths = int(np.clip(disparity(grays.views, neighbors) / _STEP, *_DEPTHS))
    inverse_depths = (neighbors.nearest[:, None] * np.linspace(0, 1, num_depths)).astype(np.float32)
    pixels = _random_pixels(grays.views, small.masks, count, rng)
    with counting("plane sweep", len(pixels)) as on_pixels:
        found = find_surfaces(backend, grays, neighbors.neighbors, pixels, inverse_depths, _SCORE, _MARGIN, on_pixels)
    return found.points(grays.views).astype(np.float32), _colors(found, grays.views, small.images)


def _rough_points(backend: Backend, photographs: ImageSet, rng: np.random.Generator) -> np.ndarray:
    """Points float64 [P, 3] of the first stage."""
    grays = GrayscaleImages.of(backend, photographs.views, photographs.images, _ROUGH_SIDE)
    neighbors = neighbors_by_position(grays.views)
    if neighbors is None:
        return np.zeros((0, 3))
    spread = np.geomspace(1 / _FARTHEST, 1, _ROUGH_DEPTHS)
    inverse_depths = (neighbors.nearest[:, None] * spread).astype(np.float32)
    pixels = _random_pixels(grays.views, photographs.masks, _ROUGH_PIXELS, rng)
    found = find_surfaces(backend, grays, neighbors.neighbors, pixels, inverse_depths, _ROUGH_SCORE, _ROUGH_MARGIN)
    return found.points(grays.views)


def _random_pixels(
    views: Sequence[View], masks: Sequence[np.ndarray | None], count: int, rng: np.random.Generator
) -> np.ndarray:
    """Up to `count` pixels int32 [P, 3] (view, column, row) with patches inside images and masks."""
    sizes = np.array([(view.width, view.height) for view in views])
    count = min(count, int(sizes.prod(axis=1).sum()) // _PIXELS_A_TRY)
    which = np.sort(rng.integers(len(views), size=count))
    room = sizes[which] - 2 * RADIUS
    places = (RADIUS + rng.random((count, 2)) * room).astype(np.int32)
    kept = np.all(room > 0, axis=1)
    for index, mask in enumerate(masks):
        if mask is not None:
            rows = np.flatnonzero(which == index)
            kept[rows] = kept[rows] & (_at(mask, places[rows], views[index]) > 0)
    return np.c_[which, places].astype(np.int32)[np.flatnonzero(kept)]


def _colors(found: Surfaces, views: Sequence[View], images: Sequence[np.ndarray]) -> np.ndarray:
    """Colours uint8 [P, 3] from the photographs of the downscaled `views`."""
    colors = np.empty((len(found.pixels), 3), np.uint8)
    for index in np.unique(found.pixels[:, 0]):
        rows = np.flatnonzero(found.pixels[:, 0] == index)
        colors[rows] = _at(images[index], found.pixels[rows, 1:], views[index])
    return colors


def _at(image: np.ndarray, places: np.ndarray, view: View) -> np.ndarray:
    """Values of a full-size image at pixels (column, row) [P, 2] of its downscaled view."""
    columns, rows = ((places + 0.5) * image.shape[1::-1] / (view.width, view.height)).astype(int).T
    return image[rows, columns]
