"""Smooth displacement of a curve away from points."""

import numpy as np

_ROUNDS = 30
_WIDTH, _WIDTH_IN_DISTANCES = 8.0, 2.0
"""Standard deviation of a displacement along the curve: this many positions and distances at least."""
_BLOCK = 64


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
    for _ in range(_ROUNDS if len(rows) else 0):
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
