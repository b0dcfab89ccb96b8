"""Selection of neighbouring views and depth ranges, from cameras and then from points."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from splat_cli.scene.view import View

NUM_NEIGHBORS = 6
_RANKS = (1, 2, 3, 5, 8, 13)  # neighbours of the first stage, by rank of distance, for a range of baselines
_FACING = 0.5  # minimum cosine between the axes of neighbours
_ANGLE, _SPREAD_BELOW, _SPREAD_ABOVE = 12.0, 5.0, 10.0  # degrees between two rays to a point: best, and deviations
_POINTS_LOOKED_AT = 100
_MIN_POINTS = 20  # per view, for its minimum depth
_NEAREST_PERCENTILE, _NEARER = 98, 1.5


@dataclass(frozen=True)
class NeighborViews:
    """neighbors: int32 [V, NUM_NEIGHBORS], views to compare each view with. nearest: float64 [V], 1 / minimum depth."""

    neighbors: np.ndarray
    nearest: np.ndarray


def neighbors_by_position(views: Sequence[View]) -> NeighborViews | None:
    """Nearby cameras with similar directions, or None. Minimum depth: half the usual distance to the next camera."""
    centers, forward = _centers(views), np.array([view.w2c[2, :3] for view in views])
    distances = np.linalg.norm(centers[:, None] - centers, axis=2)
    if not distances.any():
        return None
    to_next = np.where(distances > 0, distances, np.inf).min(axis=1)
    distances[(forward @ forward.T < _FACING) | (distances == 0)] += 2 * distances.max()  # last resort
    np.fill_diagonal(distances, np.inf)
    ranks = [min(rank, len(views) - 1) - 1 for rank in _RANKS]
    neighbors = np.argsort(distances, axis=1, kind="stable")[:, ranks]
    return NeighborViews(np.ascontiguousarray(neighbors, np.int32), np.full(len(views), 2 / np.median(to_next)))


def neighbors_by_points(views: Sequence[View], points: np.ndarray) -> NeighborViews:
    """Cameras that see the same points [P, 3] at suitable angles, neither too small nor too large."""
    centers, is_seen, inverse_depths = _centers(views), *_seen(views, points)

    def select(view: int) -> tuple[np.ndarray, float]:
        indices = np.flatnonzero(is_seen[view])
        near = inverse_depths[view, indices] if len(indices) >= _MIN_POINTS else inverse_depths[is_seen]
        nearest = _NEARER * np.percentile(near, _NEAREST_PERCENTILE)
        indices = indices[:: max(1, len(indices) // _POINTS_LOOKED_AT)]
        rays = points[indices] - centers[:, None]
        rays /= np.linalg.norm(rays, axis=2, keepdims=True)
        angles = np.degrees(np.arccos(np.clip((rays * rays[view]).sum(axis=2), -1, 1)))
        off = (angles - _ANGLE) / np.where(angles < _ANGLE, _SPREAD_BELOW, _SPREAD_ABOVE)
        worth = (np.exp(-0.5 * off**2) * is_seen[:, indices]).sum(axis=1)
        worth[view] = -1
        best = np.argsort(-worth, kind="stable")
        return best[np.minimum(np.arange(NUM_NEIGHBORS), len(views) - 2)], nearest

    with ThreadPoolExecutor() as pool:
        neighbors, nearest = zip(*pool.map(select, range(len(views))), strict=True)
    return NeighborViews(np.array(neighbors, np.int32), np.array(nearest))


def disparity(views: Sequence[View], neighbors: NeighborViews) -> float:
    """Disparity of a pixel in neighbouring views between infinity and `nearest`, in pixels: median over views."""
    centers = _centers(views)
    baselines = np.linalg.norm(centers[:, None] - centers[neighbors.neighbors], axis=2).max(axis=1)
    return float(np.median(baselines * neighbors.nearest * [view.fx for view in views]))


def _centers(views: Sequence[View]) -> np.ndarray:
    return np.array([view.center for view in views])


def _seen(views: Sequence[View], points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Visibility of points in views, bool [V, P], and 1 / depth, float64 [V, P]."""
    _, depths, inside = zip(*(view.project(points) for view in views), strict=True)
    with np.errstate(divide="ignore"):
        return np.array(inside), 1 / np.array(depths)
