"""Walks along the cameras: smooth and level, in order of capture if that is continuous."""

from collections.abc import Sequence

import numpy as np

from splat_cli.scene.extent import scene_extent
from splat_cli.scene.trajectories.looking import frame
from splat_cli.scene.view import View

BANDWIDTHS = (3.0, 2.0, 1.0, 0.5, 0.25)
"""Cameras over which places and directions are averaged: the first is the smoothest, the last stays at the cameras."""
_MAX_JUMP = 3.0
"""A capture's order is kept if its steps are so many times as long as those to the nearest camera, in the median."""
_ROUNDS = 20


def walk_path(views: Sequence[View], num_frames: int, up: np.ndarray, bandwidth: float) -> list[View]:
    """A smooth path along all cameras with their directions, a level horizon and constant speed. bandwidth: cameras."""
    centers = np.array([view.center for view in views])
    forward = np.array([view.w2c[2, :3] for view in views])
    order = _order(centers, forward, scene_extent(views))
    centers, forward = centers[order], forward[order]
    steps = np.linalg.norm(np.diff(_poses(centers, forward, scene_extent(views)), axis=0), axis=1)
    times = np.concatenate([[0.0], np.cumsum(steps + 1e-9)])
    width = bandwidth * max(times[-1], 1e-9) / len(views)
    exponents = -0.5 * ((np.linspace(0, times[-1], num_frames)[:, None] - times) / width) ** 2
    weights = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    pairs = zip(weights @ centers, weights @ forward, strict=True)
    return [frame(views[0], i, place, place + ahead, up) for i, (place, ahead) in enumerate(pairs)]


def _poses(centers: np.ndarray, forward: np.ndarray, extent: float) -> np.ndarray:
    """Vectors [N, 6] whose distances are those of poses: a quarter of the extent is equivalent to a radian."""
    return np.concatenate([4 * centers / extent, forward], axis=1)


def _order(centers: np.ndarray, forward: np.ndarray, extent: float) -> np.ndarray:
    """Capture order if consecutive cameras are close, otherwise a short tour."""
    poses = _poses(centers, forward, extent)
    if len(poses) < 4:
        return np.arange(len(poses))
    distances = np.linalg.norm(poses[:, None] - poses, axis=2)
    nearest = np.median((distances + np.diag(np.full(len(poses), np.inf))).min(axis=1))
    if np.median(np.diag(distances, 1)) <= _MAX_JUMP * nearest:
        return np.arange(len(poses))
    return _shortened(_greedy(distances), distances)


def _greedy(distances: np.ndarray) -> np.ndarray:
    """Nearest-neighbour tour from the camera farthest from the others."""
    tour = [int(distances.sum(axis=1).argmax())]
    left = set(range(len(distances))) - set(tour)
    while left:
        tour.append(min(left, key=lambda one: distances[tour[-1], one]))
        left.remove(tour[-1])
    return np.array(tour)


def _shortened(tour: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """The tour after 2-opt (Croes 1958)."""
    for _ in range(_ROUNDS):
        improved = False
        for first in range(len(tour) - 2):
            a, b = tour[first], tour[first + 1]
            starts, ends = tour[first + 2 : -1], tour[first + 3 :]
            gains = distances[a, b] + distances[starts, ends] - distances[a, starts] - distances[b, ends]
            if len(gains) and gains.max() > 1e-9:
                last = first + 2 + int(gains.argmax())
                tour[first + 1 : last + 1] = tour[first + 1 : last + 1][::-1].copy()
                improved = True
        if not improved:
            break
    return tour
