"""The subject of a capture: what most cameras see. Paths that keep it within their frames."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from splat_cli.device.launch import ceil_div
from splat_cli.scene.trajectories.interpolate import with_size
from splat_cli.scene.view import View, evenly_spread

SHARES = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9)
"""Minimum shares of the cameras that see the subject, tried in this order: the first is the largest subject."""
MIN_ZOOM = 0.6
"""Minimum factor on the focal lengths. A subject that needs less is too large: the next share is tried."""
_MARGIN = 0.96
"""Part of the picture within which the subject is kept."""
_STRAYS = 1
"""Percentage of the subject's points that a frame may miss: floaters."""
_MIN_VIEWS, _MIN_POINTS = 3, 30
_SOME_VIEWS, _SOME_POINTS, _CHECKED = 200, 4000, 60


def shares_seen(views: Sequence[View], points: np.ndarray) -> np.ndarray:
    """Share of the views whose picture contains each of `points` [P, 3], occluded or not, [P]."""
    return np.mean([view.project(points)[2] for view in evenly_spread(views, _SOME_VIEWS)], axis=0)


def zoom_to_keep(path: Sequence[View], points: np.ndarray) -> float:
    """Largest factor on the focal lengths of a path with which every frame shows `points` [P, 3], except strays."""
    return min(_zoom(view, points) for view in path)


def framed(
    path: Sequence[View], views: Sequence[View], points: np.ndarray, size: tuple[int, int] | None = None
) -> list[View]:
    """The path with a field of view so wide that every frame shows the subject of `views`; never a narrower one.

    All frames have the same field of view: one that changes would look like a movement. points: [P, 3], of the scene.
    size: of the frames, pixels; None: as they are. If the cameras share no subject, the path only gets its size.
    """
    sized = [with_size(view, *size) for view in path] if size else list(path)
    if len(views) < _MIN_VIEWS or len(points) == 0:
        return sized
    some = points[:: ceil_div(len(points), _SOME_POINTS)].astype(np.float64)
    seen = shares_seen(views, some)
    is_cropped = sized[0].width / sized[0].height / (path[0].width / path[0].height)
    least, zoom = MIN_ZOOM * min(1.0, is_cropped), 1.0
    for share in SHARES:
        subject = some[seen >= share]
        if len(subject) < _MIN_POINTS:
            break
        zoom = max(_MARGIN * zoom_to_keep(evenly_spread(sized, _CHECKED), subject), least)
        if zoom > least:
            break
    return [dataclasses.replace(view, fx=view.fx * min(zoom, 1.0), fy=view.fy * min(zoom, 1.0)) for view in sized]


def _zoom(view: View, points: np.ndarray) -> float:
    pixels, z, _ = view.project(points)
    center = np.array([view.cx, view.cy])
    offsets = pixels - center
    room = np.where(offsets < 0, center, np.array([view.width, view.height]) - center)
    zooms = (room / np.maximum(np.abs(offsets), 1e-9)).min(axis=1)
    return float(np.percentile(np.where(z > 0, zooms, 0.0), _STRAYS))
