"""Visibility of points: the points seen by each view, and their depths."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from splat_cli.device import ceil_div
from splat_cli.scene.view import View

MAX_POINTS = 8192  # per view
_NEAR = 0.001  # world units, as the rasterizer's
_CELLS = 40  # across the longer side of an image, for the occlusion test
_SLACK = 1.1  # maximum depth relative to the nearest point in adjacent cells


@dataclass(frozen=True)
class Observations:
    """Points of all views, one per pixel: view i has those from begins[i] to begins[i + 1].

    begins int32 [num_views + 1], pixels int32 [P] (row * width + column), inverse_depths float32 [P] (1 / z),
    points int32 [P], their numbers in the array of points.
    """

    begins: np.ndarray
    pixels: np.ndarray
    inverse_depths: np.ndarray
    points: np.ndarray

    def select(self, chosen: np.ndarray) -> "Observations":
        """The observations `chosen`, bool [P]."""
        begins = np.concatenate([[0], np.cumsum(chosen)])[self.begins].astype(np.int32)
        return Observations(begins, self.pixels[chosen], self.inverse_depths[chosen], self.points[chosen])


def observe(views: Sequence[View], points: np.ndarray | Observations) -> Observations:
    """Project points [P, 3] into the views, without those occluded by others. Returns observations as they are.

    A point counts as occluded if another one in the same or an adjacent cell of a coarse grid is clearly nearer. Sparse
    points do not cover what is behind them: missing some visible points is better than using occluded ones.
    """
    if isinstance(points, Observations):
        return points
    seen = [_seen(view, points) for view in views]
    begins = np.cumsum([0, *(len(pixels) for pixels, _, _ in seen)]).astype(np.int32)
    pixels, inverse_depths, numbers = (np.concatenate(parts) for parts in zip(*seen, strict=True))
    return Observations(begins, pixels.astype(np.int32), inverse_depths.astype(np.float32), numbers.astype(np.int32))


def _seen(view: View, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    places, z, inside = view.project(points)
    inside &= z > _NEAR
    (column, row), z = places[inside].astype(np.int64).T, z[inside]
    size = ceil_div(max(view.width, view.height), _CELLS)
    cells_down, cells_across = row // size + 1, column // size + 1  # with a border of empty cells
    nearest = np.full((view.height // size + 3, view.width // size + 3), np.inf)
    np.minimum.at(nearest, (cells_down, cells_across), z)
    around = np.lib.stride_tricks.sliding_window_view(nearest, (3, 3)).min(axis=(2, 3))  # without the border
    visible = np.flatnonzero(z <= _SLACK * around[cells_down - 1, cells_across - 1])
    visible = visible[np.argsort(z[visible], kind="stable")]
    pixels, first = np.unique(row[visible] * view.width + column[visible], return_index=True)
    depths, numbers = z[visible][first], np.flatnonzero(inside)[visible][first]
    step = ceil_div(len(pixels), MAX_POINTS) or 1
    return pixels[::step], 1 / depths[::step], numbers[::step]
