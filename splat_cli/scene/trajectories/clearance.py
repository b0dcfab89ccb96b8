"""Distances of camera paths from obstacles, and paths that keep them: bent away from obstacles, or moved back."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from splat_cli.scene.view import MAX_NUMBER, View, evenly_spread

SHARE = 0.5
"""Required distance, relative to that of the nearest given cameras."""
_DEPTH_SHARE = 0.75
"""Required depth of obstacles in the picture, relative to the given cameras': nearer ones would enclose the camera."""
_CELLS = 8
"""Number of nearest obstacles in a picture to ignore, because they may be misplaced splats."""
_NEAREST = 5
"""Percentile used as the minimum: some cameras are inside misplaced splats."""
_ROWS = 64
_CHECKED = 200
"""Maximum number of frames of a path whose pictures are checked."""
_MARGIN = 1.1
"""Distance to which curves are bent away, and depth to which cameras move back, relative to the required ones."""
_BACK_ROUNDS = 10
"""Maximum number of moves backwards. After each one, the picture shows other obstacles."""
_SUPPORTS = 400
"""Maximum number of positions of a curve that are checked and moved; those between are interpolated."""
_BEND_ROUNDS = 30
_WIDTH, _WIDTH_IN_DISTANCES = 8.0, 2.0
"""Standard deviation of a displacement along the curve: minimum number of positions and of distances."""
_BLOCK = 64


class Obstacles:
    """Dense cells `points` [P, 3], and the minimum distance from them."""

    def __init__(self, points: np.ndarray, views: Sequence[View]) -> None:
        self._points = np.asarray(points[(np.abs(points) < MAX_NUMBER).all(axis=1)], np.float32)
        self.required, self.required_depth = 0.0, float("inf")
        if len(self._points):
            self.required_depth = _DEPTH_SHARE * _percentile([self.depth(view) for view in views])
            distances = self.distances(np.array([view.center for view in views]))
            self.required = SHARE * _percentile(distances)

    def distances(self, positions: np.ndarray) -> np.ndarray:
        """Distance of each of `positions` [N, 3] to the nearest obstacle, [N]."""
        squares = (self._points**2).sum(axis=1)
        nearest = []
        for start in range(0, len(positions), _ROWS):
            some = positions[start : start + _ROWS].astype(np.float32)
            nearest.append((squares - 2 * some @ self._points.T).min(axis=1) + (some**2).sum(axis=1))
        return np.sqrt(np.maximum(np.concatenate(nearest), 0))

    def avoid(self, curve: np.ndarray) -> np.ndarray:
        """The curve [M, 3], bent smoothly away from obstacles where it is nearer than required. Equal ends: a loop."""
        is_loop = bool(np.allclose(curve[0], curve[-1], rtol=0, atol=1e-5 * np.ptp(curve, axis=0).max()))
        chosen = np.unique(np.linspace(0, len(curve) - 1, _SUPPORTS).round().astype(int))[: -1 if is_loop else None]
        if len(self._points) == 0 or len(chosen) < 3:
            return curve
        supports, distance = curve[chosen], _MARGIN * self.required
        low, high = supports.min(axis=0) - 3 * distance, supports.max(axis=0) + 3 * distance
        within = self._points[((self._points > low) & (self._points < high)).all(axis=1)]
        moved = avoid_points(supports, within, distance, is_loop) - supports
        period = len(curve) - 1 if is_loop else None
        between = [np.interp(np.arange(len(curve)), chosen, column, period=period) for column in moved.T]
        return curve + np.stack(between, axis=1)

    def clearance(self, path: Sequence[View]) -> float:
        """Minimum distance of a path's cameras and the midpoints between them; infinite without obstacles."""
        if len(self._points) == 0:
            return float("inf")
        centers = np.array([view.center for view in path])
        between = (centers[1:] + centers[:-1]) / 2
        return float(self.distances(np.concatenate([centers, between])).min())

    def depth(self, view: View) -> float:
        """Depth of the nearest obstacles in a camera's picture, world units; infinite if there are only a few."""
        x, y, z = view.w2c[:3, :3].astype(np.float32) @ self._points.T + view.w2c[:3, 3:].astype(np.float32)
        ahead = (z > 0) & (np.abs(x) * 2 * view.fx < view.width * z) & (np.abs(y) * 2 * view.fy < view.height * z)
        depths = z[ahead]
        return float(np.partition(depths, _CELLS)[_CELLS]) if len(depths) > _CELLS else float("inf")

    def clearance_ratio(self, path: Sequence[View]) -> float:
        """Minimum ratio of a path's distances and depths to the required values; 1 if all are large enough."""
        if self.required <= 0:
            return 1.0
        depth = min(self.depth(view) for view in evenly_spread(path, _CHECKED))
        in_view = depth / self.required_depth if np.isfinite(self.required_depth) else 1.0
        return min(self.clearance(path) / self.required, in_view, 1.0)

    def moved_back(self, path: Sequence[View]) -> list[View]:
        """The path, moved smoothly backwards where obstacles in a picture are nearer than required."""
        if not np.isfinite(self.required_depth) or len(path) < 2:
            return list(path)
        chosen = np.unique(np.linspace(0, len(path) - 1, min(_CHECKED, len(path))).round().astype(int))
        supports = [path[i] for i in chosen]
        centers = np.array([view.center for view in supports])
        spacing = float(np.linalg.norm(np.diff(centers, axis=0), axis=1).mean())
        is_loop = bool(np.linalg.norm(centers[-1] - centers[0]) < 2 * spacing)
        back = np.zeros(len(supports))
        for _ in range(_BACK_ROUNDS):
            depths = np.array([self.depth(_moved_back(view, by)) for view, by in zip(supports, back, strict=True)])
            missing = np.maximum(_MARGIN * self.required_depth - depths, 0)
            if not missing.any():
                break
            back = raised(back, back + missing, spacing, is_loop)
        amounts = np.interp(np.arange(len(path)), chosen, back)
        return [_moved_back(view, by) for view, by in zip(path, amounts, strict=True)]

    def first_clear(self, make: Callable[[float], list[View]], options: Sequence[float]) -> list[View]:
        """The first path make(option) that keeps the required distances, moved backwards if necessary.

        If none does, the path with the largest `clearance_ratio`.
        """
        paths: list[tuple[float, list[View]]] = []
        for change in (list, self.moved_back):
            for option in options:
                path = change(make(option))
                paths.append((self.clearance_ratio(path), path))
                if paths[-1][0] >= 1:
                    return path
        return max(paths, key=lambda pair: pair[0])[1]


def _moved_back(view: View, distance: float) -> View:
    w2c = view.w2c.copy()
    w2c[2, 3] += distance
    return dataclasses.replace(view, w2c=w2c)


def _percentile(values: Sequence[float] | np.ndarray) -> float:
    return float(np.percentile(values, _NEAREST, method="nearest"))


def avoid_points(positions: np.ndarray, points: np.ndarray, distance: float, is_loop: bool) -> np.ndarray:
    """Positions [N, 3] of a curve, moved to at least `distance` from `points` [P, 3] if that succeeds in few rounds.

    In each round, positions that are too near are pushed away from their nearest point, and their neighbours with them:
    by the mean of the pushes with Gaussian weights along the curve, which fades where no position is too near.
    """
    steps = _steps_between(len(positions), is_loop)
    spacing = np.linalg.norm(np.diff(positions, axis=0), axis=1).mean()
    width = max(_WIDTH, _WIDTH_IN_DISTANCES * distance / max(spacing, 1e-12))
    weights = np.exp(-0.5 * (steps / width) ** 2)
    moved = positions.copy()
    rows, points = _close(positions, points, 2 * distance)
    for _ in range(_BEND_ROUNDS if len(rows) else 0):
        away = moved[rows] - points[np.argmin(_squares(moved[rows], points), axis=1)]
        lengths = np.maximum(np.linalg.norm(away, axis=1, keepdims=True), 1e-12)
        near = lengths[:, 0] < 0.99 * distance
        if not near.any():
            break
        pushes, shares = (away * (distance / lengths - 1))[near], weights[:, rows[near]]
        moved += shares @ pushes / shares.sum(axis=1).max()
    return moved


def raised(values: np.ndarray, least: np.ndarray, spacing: float, is_loop: bool) -> np.ndarray:
    """Displacements [N] of a curve's positions, smoothly raised to `least` [N].

    The envelope of Gaussian bumps around the positions that are raised. spacing: of the positions, world units.
    """
    steps = _steps_between(len(values), is_loop)
    lacking = np.flatnonzero(least > values)
    widths = np.maximum(_WIDTH, _WIDTH_IN_DISTANCES * least[lacking] / max(spacing, 1e-12))
    bumps = least[lacking] * np.exp(-0.5 * (steps[:, lacking] / widths) ** 2)
    return np.maximum(values, bumps.max(axis=1, initial=0))


def _steps_between(count: int, is_loop: bool) -> np.ndarray:
    """[N, N]: steps along the curve from each position to each other."""
    steps = np.abs(np.arange(count)[:, None] - np.arange(count))
    return np.minimum(steps, count - steps) if is_loop else steps


def _close(positions: np.ndarray, points: np.ndarray, distance: float) -> tuple[np.ndarray, np.ndarray]:
    """(indices of the positions within `distance` of a point, points [Q, 3] within twice that of a position)."""
    rows, near = [], np.zeros(len(points), bool)
    for start in range(0, len(positions) if len(points) else 0, _BLOCK):
        squares = _squares(positions[start : start + _BLOCK], points)
        rows += list(start + np.flatnonzero(squares.min(axis=1) < distance**2))
        near |= squares.min(axis=0) < (2 * distance) ** 2
    return np.array(rows, int), points[near]


def _squares(positions: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Squared distances, float32 [N, P]."""
    origin = points[0]
    positions, points = (positions - origin).astype(np.float32), (points - origin).astype(np.float32)
    return (positions**2).sum(axis=1)[:, None] - 2 * positions @ points.T + (points**2).sum(axis=1)
