"""The viewer's first camera: its upright frame and the point it turns about."""

from collections.abc import Sequence

import numpy as np

from splat_cli.scene.trajectories.capture import Capture
from splat_cli.scene.trajectories.focus import focus_point, up_direction
from splat_cli.scene.trajectories.looking import levelled
from splat_cli.scene.view import View

_MAX_ROLL = np.sin(np.radians(15))
_NEAR = 0.01
_NEAR_PIVOT = 0.4
_CENTRAL = 0.17
"""Of the picture's width and height, on each side of the middle."""


def upright_rotation(up: np.ndarray, start: View) -> np.ndarray:
    """The rotation [3, 3] that turns `up`, a unit vector, into -y, and the way that `start` looks towards z.

    A viewer's camera has no roll. Where `start` is rolled a little, up is tilted so that it is not.
    """
    right = start.w2c[0, :3]
    if abs(up @ right) < _MAX_ROLL:
        up = up - (up @ right) * right
        up /= np.linalg.norm(up)
    return levelled(start, up).w2c[:3, :3]


def pivot_share(views: Sequence[View]) -> float:
    """How far before a camera the point lies about which a browser turns, in distances of what the camera looks at.

    1 where cameras stand all around it. Elsewhere less: a drag must not swing the camera behind a wall that was only
    seen from the front.
    """
    if not views:
        return 1.0
    return 1.0 if Capture(views, focus_point(views), up_direction(views)).kind == "orbit" else _NEAR_PIVOT


def looked_at(means: np.ndarray, view: View) -> np.ndarray:
    """The point [3] on the camera's axis as far away as the splats [N, 3] around the axis are, in the median."""
    points = means @ view.w2c[:3, :3].T + view.w2c[:3, 3]
    depths = points[:, 2]
    reach = np.abs(points[:, :2]) * [view.fx / view.width, view.fy / view.height]
    ahead = depths > _NEAR
    central = ahead & (reach < _CENTRAL * np.maximum(depths, 0)[:, None]).all(axis=1)
    chosen = depths[central] if central.any() else depths[ahead]
    depth = float(np.median(chosen)) if len(chosen) else 1.0
    return view.center + depth * view.w2c[2, :3]
