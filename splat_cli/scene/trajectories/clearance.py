"""Distances of cameras from obstacles."""

from collections.abc import Callable, Sequence

import numpy as np

from splat_cli.scene.view import View

SHARE = 0.5
"""Required distance, relative to that of the nearest given cameras."""
_NEAREST = 5
"""Percentile used as the minimum distance: some cameras are inside misplaced splats."""
_ROWS = 64


class Obstacles:
    """Dense cells `points` [P, 3], and the minimum distance from them."""

    def __init__(self, points: np.ndarray, views: Sequence[View]) -> None:
        self._points = np.asarray(points, np.float32)
        self.required = 0.0
        if len(points):
            distances = self.distances(np.array([view.center for view in views]))
            self.required = SHARE * float(np.percentile(distances, _NEAREST))

    def distances(self, positions: np.ndarray) -> np.ndarray:
        """Distance of each of `positions` [N, 3] to the nearest obstacle, [N]."""
        squares = (self._points**2).sum(axis=1)
        nearest = []
        for start in range(0, len(positions), _ROWS):
            some = positions[start : start + _ROWS].astype(np.float32)
            nearest.append((squares - 2 * some @ self._points.T).min(axis=1) + (some**2).sum(axis=1))
        return np.sqrt(np.maximum(np.concatenate(nearest), 0))

    def clearance(self, path: Sequence[View]) -> float:
        """Minimum distance of a path's cameras and the midpoints between them; infinite without obstacles."""
        if len(self._points) == 0:
            return float("inf")
        centers = np.array([view.center for view in path])
        between = (centers[1:] + centers[:-1]) / 2
        return float(self.distances(np.concatenate([centers, between])).min())

    def first_clear(self, make: Callable[[float], list[View]], options: Sequence[float]) -> list[View]:
        """The first path make(option) that keeps the required distance, or the one that comes closest to it."""
        best: tuple[float, list[View]] | None = None
        for option in options:
            path = make(option)
            clearance = self.clearance(path)
            if clearance >= self.required:
                return path
            if best is None or clearance > best[0]:
                best = (clearance, path)
        assert best is not None
        return best[1]
