"""Scenes in geographic coordinates (UTM, ECEF), translated to the origin for the precision of float32."""

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from splat_cli.scene.crop import Crop
from splat_cli.scene.dataset import Dataset, Frame, Points
from splat_cli.scene.view import View

_MAX_AWAY = 1e3  # extents of cameras and points; float32 keeps 1e-4 of the extent up to here
_MAX_ORIGIN = 1e12  # more than any coordinates on Earth
_ONE_PLACE = 1e-9  # relative to the distance from the origin: rounding of poses
_SOME_POINTS = 20_000


def centered(dataset: Dataset, origin: Iterable[float] | None) -> Dataset:
    """The dataset, in geographic coordinates relative to `origin`: by default the median of the cameras in whole units.

    With a given origin, a dataset that already has such relative coordinates is unchanged.
    """
    is_given = origin is not None
    origin = _origin_of(dataset) if origin is None else np.array(point_of(origin))
    if not origin.any():
        return dataset
    if is_given and is_relative(_centers(dataset.frames), origin):
        return dataclasses.replace(dataset, origin=origin)
    moved = ", ".join(f"{-value:.0f}" for value in origin)
    return dataclasses.replace(
        dataset,
        found=f"{dataset.found}, moved by {moved} to the origin",
        frames=[dataclasses.replace(frame, w2c=moved_pose(frame.w2c, origin)) for frame in dataset.frames],
        points=_relative(dataset.points, origin),
        origin=origin,
    )


def is_relative(positions: np.ndarray, origin: np.ndarray) -> bool:
    """Whether points [P, 3] are already relative to `origin`: nearer to zero than to `origin`."""
    some = _some(positions)
    if not origin.any() or not len(some):
        return True
    middle = np.median(some, axis=0)
    return bool(np.linalg.norm(middle) <= np.linalg.norm(middle - origin))


def relative_to(points: Points, origin: np.ndarray) -> Points:
    """Points of a file, in the scene's coordinates or already relative to `origin`."""
    return points if is_relative(points.positions, origin) else _relative(points, origin)


def relative_views(views: Sequence[View], origin: np.ndarray) -> list[View]:
    """Cameras of a file, in the scene's coordinates or already relative to `origin`."""
    if is_relative(_centers(views), origin):
        return list(views)
    return [dataclasses.replace(view, w2c=moved_pose(view.w2c, origin)) for view in views]


def relative_crop(crop: Crop, origin: np.ndarray) -> Crop:
    """A region given by a user, in the scene's coordinates or already relative to `origin`."""
    return crop if is_relative(np.array([crop.center]), origin) else crop.relative_to(origin)


def relative_point(point: tuple[float, float, float], origin: np.ndarray) -> tuple[float, float, float]:
    """A point given by a user, in the scene's coordinates or already relative to `origin`."""
    return point if is_relative(np.array([point]), origin) else point_of(np.subtract(point, origin))


def point_of(values: Iterable[float]) -> tuple[float, float, float]:
    """x, y and z."""
    x, y, z = map(float, values)
    return x, y, z


def _origin_of(dataset: Dataset) -> np.ndarray:
    """float64 [3]; zeros where float32 suffices."""
    centers = _some(_centers(dataset.frames))
    if not len(centers):
        return np.zeros(3)
    middle = np.median(centers, axis=0)
    away = np.linalg.norm(middle)
    both = [some for some in (centers, _some(dataset.points.positions)) if len(some)]
    extent = max(np.median(np.linalg.norm(some - middle, axis=1)) for some in both)
    if extent <= _ONE_PLACE * away:
        extent = 1.0
    return np.rint(middle) if _MAX_AWAY * extent < away < _MAX_ORIGIN else np.zeros(3)


def _centers(cameras: Sequence[View] | Sequence[Frame]) -> np.ndarray:
    """Camera centres, float64 [V, 3]."""
    return np.array([camera.center for camera in cameras]).reshape(-1, 3)


def _some(positions: np.ndarray) -> np.ndarray:
    """At most about 40,000 of the finite positions, float64 [N, 3]."""
    some = positions[:: max(len(positions) // _SOME_POINTS, 1)].astype(np.float64)
    return some[np.isfinite(some).all(axis=1)]


def moved_pose(w2c: np.ndarray, origin: np.ndarray) -> np.ndarray:
    """World to camera [4, 4], for a world relative to `origin`."""
    moved = w2c.copy()
    moved[:3, 3] += w2c[:3, :3] @ origin
    return moved


def _relative(points: Points, origin: np.ndarray) -> Points:
    return dataclasses.replace(points, positions=points.positions - origin)
