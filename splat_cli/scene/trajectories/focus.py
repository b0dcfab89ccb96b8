"""What a set of cameras looks at: type of the capture (around an object, from one side, a walk), focus point, up
direction, ground; and cameras that look at a point with a level horizon."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from splat_cli.scene.extent import scene_extent
from splat_cli.scene.quaternion import world_to_camera
from splat_cli.scene.view import MAX_NUMBER, View

FULL_CIRCLE = 2 * np.pi
_MAX_GAP = np.radians(75)
"""Maximum angle between neighbouring cameras of a full circle, radians."""
_FACING = np.cos(np.radians(40))
_MIN_FACING = 0.7
"""Minimum fraction of the cameras that look at a common focus."""
_STRAYS = (2, 98)
"""Percentiles of the angles at the ends of an arc."""


class Capture:
    """Cameras in cylindrical coordinates about the vertical through the focus.

    angles, radii, heights: [N], radians and world units.
    """

    def __init__(self, views: Sequence[View], focus: np.ndarray, up: np.ndarray) -> None:
        self.template, self.focus, self.up = views[0], focus, up
        east = perpendicular(up)
        self._axes = np.stack([east, np.cross(up, east)])
        offsets = np.array([view.center for view in views]) - focus
        flat = offsets @ self._axes.T
        self.angles = np.arctan2(flat[:, 1], flat[:, 0])
        self.radii, self.heights = np.hypot(*flat.T), offsets @ up
        forward = np.array([view.w2c[2, :3] for view in views])
        distances = np.maximum(np.linalg.norm(offsets, axis=1), 1e-12)
        self._facing = -(forward * offsets).sum(axis=1) / distances

    @property
    def kind(self) -> str:
        """Suitable path: "walk" if cameras look at different points, otherwise "orbit" or "arc"."""
        if np.mean(self._facing > _FACING) < _MIN_FACING:
            return "walk"
        return "orbit" if self.covered()[1] >= FULL_CIRCLE else "arc"

    def covered(self) -> tuple[float, float]:
        """(centre, width) of the arc of cameras without outliers, radians; a full circle starts at camera 0."""
        angles = np.sort(self.angles)
        gaps = np.diff(angles, append=angles[0] + FULL_CIRCLE)
        widest = int(np.argmax(gaps))
        if gaps[widest] < _MAX_GAP:
            return float(self.angles[0]), FULL_CIRCLE
        opposite = angles[widest] + gaps[widest] / 2 - np.pi
        low, high = np.percentile(_wrapped(angles - opposite), _STRAYS)
        return float(opposite + (low + high) / 2), float(high - low)

    def position(self, angles: np.ndarray, bandwidth: float) -> np.ndarray:
        """Positions [F, 3] at `angles` [F], with radius and height of the cameras near that angle.

        Gaussian kernel regression over the angle. bandwidth: radians.
        """
        exponents = -0.5 * (_wrapped(angles[:, None] - self.angles) / bandwidth) ** 2
        weights = np.exp(exponents - exponents.max(axis=1, keepdims=True))
        radii, heights = (weights @ np.stack([self.radii, self.heights], axis=1) / weights.sum(axis=1)[:, None]).T
        directions = np.stack([np.cos(angles), np.sin(angles)], axis=1) @ self._axes
        return self.focus + radii[:, None] * directions + heights[:, None] * self.up


def perpendicular(vector: np.ndarray) -> np.ndarray:
    """A unit vector perpendicular to another."""
    found = np.cross(vector, np.eye(3)[np.argmin(np.abs(vector))])
    return found / np.linalg.norm(found)


def _wrapped(angles: np.ndarray) -> np.ndarray:
    """Angles wrapped to -pi to pi."""
    return (angles + np.pi) % FULL_CIRCLE - np.pi


_TRIALS = 400
_MIN_SHARE = 0.15
"""Minimum fraction of the points on the ground."""
_THICKNESS = 0.01
"""Thickness of the plane, relative to the spread of the points."""
_MIN_COSINE = np.cos(np.radians(25))
_MAX_POINTS = 5000
_PARALLEL = 1e-6
"""Mean squared sine of the angles between axes that count as parallel: about a tenth of a degree."""
_OPPOSITE = 1e-3
"""Length of the mean of unit vectors below which they count as opposite."""
_ROUNDS = 30
_LEVEL_ROUNDS, _CONVERGED = 1000, 1e-7
"""Maximum number of iterations, and change of the unit vector that ends them; few, equally rolled cameras need 300."""
_MIN_DISTANCE = 1e-3
"""Minimum distance of an axis from the focus, in extents, to limit its weight."""
_LEVEL_WEIGHT = 1e-3
"""Weight of the cameras' mean up direction, for nearly parallel horizontal axes; the ground has ten times as much."""
_MIN_ROLL = np.sin(np.radians(1))
_GROUND_TOLERANCE = 1.5
"""Maximum roll of the cameras relative to the ground, as a multiple of the roll without a ground."""


def ground_normal(points: np.ndarray, up: np.ndarray) -> np.ndarray | None:
    """Unit normal of the plane with the most points, within 25 degrees of `up`; None without such a plane.

    RANSAC (Fischler and Bolles 1981), then least squares. points: [P, 3].
    """
    rng = np.random.default_rng(0)
    some = points[rng.choice(len(points), min(len(points), _MAX_POINTS), replace=False)].astype(np.float64)
    if len(some) < 30:
        return None
    low, high = np.percentile(some, (5, 95), axis=0)
    thickness = _THICKNESS * float(np.linalg.norm(high - low))
    best = np.zeros(len(some), bool)
    for a, b, c in some[rng.integers(0, len(some), (_TRIALS, 3))]:
        normal = np.cross(b - a, c - a)
        if abs(normal @ up) > _MIN_COSINE * np.linalg.norm(normal) > 0:
            near = np.abs((some - a) @ normal) < thickness * np.linalg.norm(normal)
            best = near if near.sum() > best.sum() else best
    if best.sum() < _MIN_SHARE * len(some):
        return None
    plane = some[best]
    normal = np.linalg.svd(plane - plane.mean(axis=0), full_matrices=False)[2][2]
    return normal if normal @ up > 0 else -normal


def focus_point(views: Sequence[View]) -> np.ndarray:
    """Point float64 [3] with the least sum of distances to the optical axes, robust to outliers.

    Iteratively reweighted least squares (Weiszfeld). For one camera or parallel axes, the point is one scene extent
    ahead of the cameras; for opposite axes, it is the mean of the cameras' centres.
    """
    centers = np.array([view.center for view in views])
    forward = np.array([view.w2c[2, :3] for view in views])
    across = np.eye(3) - forward[:, :, None] * forward[:, None, :]  # projections along the axes
    extent = scene_extent(views)
    if np.linalg.eigvalsh(across.mean(axis=0))[0] < _PARALLEL:
        ahead = forward.mean(axis=0)
        is_opposite = np.linalg.norm(ahead) < _OPPOSITE
        return centers.mean(axis=0) + (0 if is_opposite else extent * _unit(ahead))
    weights = np.ones(len(views))
    point = centers.mean(axis=0)
    for _ in range(_ROUNDS):
        total = np.einsum("n,nij->ij", weights, across)
        point = np.linalg.solve(total, np.einsum("n,nij,nj->i", weights, across, centers))
        distances = np.linalg.norm(np.einsum("nij,nj->ni", across, point - centers), axis=1)
        weights = 1 / np.maximum(distances, _MIN_DISTANCE * extent)
    return point


def up_direction(views: Sequence[View], points: np.ndarray | None = None) -> np.ndarray:
    """Up direction, float64 [3], unit length: perpendicular to the horizontal axes of most cameras.

    Unlike the mean of the cameras' up axes, it is unbiased if all look down from one side. Nearly parallel axes leave a
    rotation undetermined. The result is then the normal of the ground, if `points` [P, 3] contain one and the cameras
    are level relative to it, otherwise the mean up axis.
    """
    right = np.array([view.w2c[0, :3] for view in views])
    up = _level(right, mean_up(np.array([view.w2c for view in views])), _LEVEL_WEIGHT)
    ground = None if points is None else ground_normal(points, up)
    if ground is not None and _roll(right, ground) < _GROUND_TOLERANCE * max(_roll(right, up), _MIN_ROLL):
        return _level(right, ground, 10 * _LEVEL_WEIGHT)
    return up


def mean_up(w2c: np.ndarray) -> np.ndarray:
    """Mean up axis, float64 [3], unit length, of cameras with poses w2c [N, 3 or 4, 4]; if they cancel, the first's."""
    mean = -w2c[:, 1, :3].mean(axis=0, dtype=float)
    return _unit(mean) if np.linalg.norm(mean) > 1e-3 else -w2c[0, 1, :3].astype(float)


def _level(right: np.ndarray, expected: np.ndarray, weight: float) -> np.ndarray:
    """Direction that minimises the sum of |cosines| to `right` [N, 3] plus `weight` times the angle to `expected`."""
    up, weights = expected, np.ones(len(right))
    for _ in range(_LEVEL_ROUNDS):
        previous = up
        total = np.einsum("n,ni,nj->ij", weights / weights.sum(), right, right)
        up = np.linalg.eigh(total + weight * (np.eye(3) - np.outer(expected, expected)))[1][:, 0]
        up = up if up @ expected > 0 else -up
        if np.linalg.norm(up - previous) < _CONVERGED:
            break
        weights = 1 / np.maximum(np.abs(right @ up), _MIN_ROLL)
    return up


def _roll(right: np.ndarray, up: np.ndarray) -> float:
    """Sine of the median angle of horizontal axes [N, 3] above or under the horizon."""
    return float(np.median(np.abs(right @ up)))


def _unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


UP = np.array([0.0, -1.0, 0.0])
"""Up direction of splats without cameras."""
_DIRECTION = np.array([0.0, -0.42, -0.91])


def look_at(position: np.ndarray, target: np.ndarray, up: np.ndarray) -> np.ndarray:
    """w2c float64 [4, 4] of a camera at `position` that looks at `target`, with `up` upwards in its picture."""
    forward = target - position
    length = np.linalg.norm(forward)
    forward = forward / length if length > 0 else perpendicular(up)
    right = np.cross(forward, up)
    if np.linalg.norm(right) < 1e-6 * np.linalg.norm(up):  # vertical direction: arbitrary
        right = perpendicular(forward)
    right /= np.linalg.norm(right)
    return world_to_camera(np.stack([right, np.cross(forward, right), forward]), position)


def levelled(view: View, up: np.ndarray) -> View:
    """The view with a level horizon, at the same position and in the same direction."""
    ahead = view.w2c[2, :3] - up * (view.w2c[2, :3] @ up)
    if np.linalg.norm(ahead) < 1e-6:  # vertical direction: keeps the top of the picture
        ahead = -view.w2c[1, :3]
    return dataclasses.replace(view, w2c=look_at(view.center, view.center + ahead, up))


def frame(template: View, number: int, position: np.ndarray, target: np.ndarray, up: np.ndarray) -> View:
    """Frame `number` of a path: size and lens of `template`."""
    return dataclasses.replace(template, name=f"{number:05d}", path=None, w2c=look_at(position, target, up))


def overview(means: np.ndarray) -> View:
    """A camera above and in front of the centre of splats [N, 3], which sees most of them."""
    middle, radius = np.zeros(3), 1.0
    means = means[(np.abs(means) < MAX_NUMBER / 100).all(axis=1)]
    if len(means):
        middle = middle_of(means)
        radius = float(np.quantile(np.linalg.norm(means - middle, axis=1), 0.7)) or 1.0
    w2c = look_at(middle + 2.5 * radius * _DIRECTION, middle, UP)
    return View("overview", None, 960, 720, 720.0, 720.0, 480.0, 360.0, w2c)


def middle_of(means: np.ndarray) -> np.ndarray:
    """The median of positions [N, 3] along each axis, float64 [3]."""
    return np.median(means, axis=0).astype(np.float64)
