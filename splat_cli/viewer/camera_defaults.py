"""Default cameras of a viewer: upright orientation, orbit centre, and the part of the scene to frame."""

from collections.abc import Sequence

import numpy as np

from splat_cli.device.launch import ceil_div
from splat_cli.scene.trajectories.capture import Capture
from splat_cli.scene.trajectories.focus import focus_point, up_direction
from splat_cli.scene.trajectories.look_at import levelled
from splat_cli.scene.view import View, evenly_spread

_MAX_ROLL = np.sin(np.radians(15))
_NEAR = 0.01
_NEAR_PIVOT = 0.4
_CENTRAL = 0.17
"""Half size of the central region, relative to width and height."""
_MAX_VIEWS = 64
_MAX_SPLATS = 20_000
"""Number of splats from which a median distance is estimated: a page computes one for each of its photographs."""
_CORE = (0.1, 0.9)
"""Quantiles of the splats to frame along each axis, without cameras."""


def upright_rotation(up: np.ndarray, start: View) -> np.ndarray:
    """The rotation [3, 3] from `up`, a unit vector, to -y, with the horizontal direction of `start` to z.

    A viewer's camera has no roll; a small roll of `start` is removed by tilting `up`.
    """
    right = start.w2c[0, :3]
    if abs(up @ right) < _MAX_ROLL:
        up = up - (up @ right) * right
        up /= np.linalg.norm(up)
    return levelled(start, up).w2c[:3, :3]


def pivot_share(views: Sequence[View]) -> float:
    """Distance from a camera to the orbit centre, relative to the distance of the surface in front of it.

    1 if cameras surround the scene. Otherwise smaller, so that an orbit does not move the camera behind walls that the
    photographs show only from the front.
    """
    if not views:
        return 1.0
    return 1.0 if Capture(views, focus_point(views), up_direction(views)).kind == "orbit" else _NEAR_PIVOT


def seen_points(means: np.ndarray, views: Sequence[View]) -> np.ndarray:
    """Points [P, 3] to frame: cameras and the surfaces in front of them; without cameras, corners of the core.

    Huge splats far away, such as sky, do not count.
    """
    if not views:
        return np.quantile(means, _CORE, axis=0).astype(np.float64)
    chosen = evenly_spread(views, _MAX_VIEWS)
    return np.array([point for view in chosen for point in (view.center, pivot_point(means, view))])


def pivot_point(means: np.ndarray, view: View) -> np.ndarray:
    """Point [3] on the camera's axis at the median distance of the splats [N, 3] around the axis."""
    view = view.pinhole
    means = means[:: ceil_div(len(means), _MAX_SPLATS) or 1]
    points = means @ view.w2c[:3, :3].T + view.w2c[:3, 3]
    depths = points[:, 2]
    reach = np.abs(points[:, :2]) * [view.fx / view.width, view.fy / view.height]
    ahead = depths > _NEAR
    central = ahead & (reach < _CENTRAL * np.maximum(depths, 0)[:, None]).all(axis=1)
    chosen = depths[central] if central.any() else depths[ahead]
    depth = float(np.median(chosen)) if len(chosen) else 1.0
    return view.center + depth * view.w2c[2, :3]
