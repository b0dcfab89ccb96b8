"""Walks along the cameras: smooth and level, in order of capture if that is continuous, else as a short tour."""

from collections.abc import Callable, Sequence

import numpy as np

from splat_cli.scene.extent import scene_extent
from splat_cli.scene.trajectories.focus import frame, perpendicular
from splat_cli.scene.view import View

_MAX_JUMP = 3.0
"""Capture order is kept up to this median ratio of its steps to distances to the nearest camera."""
_ROUNDS = 20
BANDWIDTHS = (6.0, 3.0, 1.5, 0.7, 0.3)
"""Standard deviations of the smoothing, in mean distances between cameras: the last path nearly interpolates them."""
_MAX_SHARE = 1 / 8
"""Maximum standard deviation relative to the number of cameras: short paths would shrink to their middle."""
_PITCH_SMOOTHING = 2
"""Smoothing of the pitch, relative to that of positions and headings."""
_SAMPLES = 12
"""Samples of the curve per camera."""
_SPEED = np.radians(2.5)
"""Speed for the default number of frames, radians per frame: 75 degrees per second at 30 frames per second."""
_FRAMES = (120, 600)
"""Minimum and maximum of the default number of frames."""
_OPPOSITE = 1e-6
"""Sine of the angle between directions below which they count as opposite."""
_REACH = 4.0
"""Radius of the smoothing kernel, in standard deviations."""


def camera_order(centers: np.ndarray, forward: np.ndarray) -> np.ndarray:
    """Capture order if consecutive cameras are close, otherwise a short tour.

    centers: [N, 3], in units that count as much as one radian. forward: unit vectors [N, 3].
    """
    poses = np.concatenate([centers, forward], axis=1)
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


def walk_path(
    views: Sequence[View],
    num_frames: int | None,
    up: np.ndarray,
    focus: np.ndarray | None,
    avoid: Callable[[np.ndarray], np.ndarray],
    bandwidth: float,
) -> list[View]:
    """A smooth path along all cameras with their directions, a level horizon and constant speed.

    The path is the line through the cameras, convolved with a Gaussian (see BANDWIDTHS). avoid: moves positions [M, 3]
    away from obstacles. focus: common point of most optical axes, if any. num_frames: by default enough
    for a comfortable speed.
    """
    centers = np.array([view.center for view in views])
    forward = np.array([view.w2c[2, :3] for view in views])
    unit = scene_extent(views) / 4
    order = camera_order(centers / unit, forward)
    centers, forward = _resampled(centers[order], forward[order], unit, _SAMPLES * len(views), up)
    width = _SAMPLES * min(bandwidth, _MAX_SHARE * len(views))
    places = avoid(_smoothed(centers, width))
    if focus is None:
        forward = _smoothed_directions(forward, up, width)
    else:  # targets stay at the object: the mean direction of cameras around it would miss it
        depths = np.linalg.norm(focus - centers, axis=1, keepdims=True)
        forward = _smoothed(centers + depths * forward, width) - places
        forward /= np.maximum(np.linalg.norm(forward, axis=1, keepdims=True), 1e-12)
    centers = places
    if num_frames is None:
        num_frames = int(np.clip(_lengths(centers, forward, unit).sum() / _SPEED, *_FRAMES))
    pairs = zip(*_resampled(centers, forward, unit, num_frames, up), strict=True)
    return [frame(views[0], i, place, place + ahead, up) for i, (place, ahead) in enumerate(pairs)]


def _lengths(centers: np.ndarray, forward: np.ndarray, unit: float) -> np.ndarray:
    """Distances [N - 1] between successive poses, in radians; a distance of `unit` counts as one radian."""
    cosines = (forward[1:] * forward[:-1]).sum(axis=1)
    return np.hypot(np.linalg.norm(np.diff(centers, axis=0), axis=1) / unit, np.arccos(np.clip(cosines, -1, 1)))


def _resampled(
    centers: np.ndarray, forward: np.ndarray, unit: float, count: int, up: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """`count` positions and unit directions, evenly spaced on the line through poses [N, 3], [N, 3]."""
    travelled = np.concatenate([[0.0], np.cumsum(_lengths(centers, forward, unit) + 1e-9)])
    at = np.linspace(0, travelled[-1], count)
    left = np.clip(np.searchsorted(travelled, at, side="right") - 1, 0, max(len(travelled) - 2, 0))
    right = np.minimum(left + 1, len(travelled) - 1)
    share = ((at - travelled[left]) / np.maximum(travelled[right] - travelled[left], 1e-12))[:, None]
    positions = centers[left] + share * (centers[right] - centers[left])
    return positions, _slerp(forward[left], forward[right], share, up)


def _slerp(first: np.ndarray, second: np.ndarray, share: np.ndarray, up: np.ndarray) -> np.ndarray:
    """Unit directions [N, 3] at `share` [N, 1] of the arcs between unit vectors [N, 3]; level between opposite ones."""
    cosines = (first * second).sum(axis=1, keepdims=True)
    sides = second - cosines * first
    is_opposite = (cosines < 0) & (np.linalg.norm(sides, axis=1, keepdims=True) < _OPPOSITE)
    level = np.cross(up, first)
    is_vertical = np.linalg.norm(level, axis=1, keepdims=True) < _OPPOSITE
    sides = np.where(is_opposite, np.where(is_vertical, perpendicular(up), level), sides)
    sides /= np.maximum(np.linalg.norm(sides, axis=1, keepdims=True), 1e-12)
    angles = share * np.arccos(np.clip(cosines, -1, 1))
    mixed = np.cos(angles) * first + np.sin(angles) * sides
    return mixed / np.maximum(np.linalg.norm(mixed, axis=1, keepdims=True), 1e-12)


def _smoothed_directions(forward: np.ndarray, up: np.ndarray, width: float) -> np.ndarray:
    """Unit directions [N, 3] with smoothed heading and pitch; nearly vertical ones weigh little in the heading."""
    rise = forward @ up
    pitch = _smoothed(np.arcsin(np.clip(rise, -1, 1))[:, None], _PITCH_SMOOTHING * width)
    heading = _smoothed(forward - rise[:, None] * up, width)
    heading /= np.maximum(np.linalg.norm(heading, axis=1, keepdims=True), 1e-12)
    return np.cos(pitch) * heading + np.sin(pitch) * up


def _smoothed(values: np.ndarray, width: float) -> np.ndarray:
    """Values [N, C] convolved with a Gaussian of `width` samples; the end values are repeated."""
    reach = int(np.ceil(_REACH * width))
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / width) ** 2)
    padded = np.pad(values, ((reach, reach), (0, 0)), mode="edge")
    columns = [np.convolve(column, kernel / kernel.sum(), mode="valid") for column in padded.T]
    return np.stack(columns, axis=1)
