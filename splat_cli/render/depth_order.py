"""Depths for the sorting of splats whose centres are outside the picture."""

from typing import Any

import numpy as np

from splat_cli.render.project import Projection
from splat_cli.scene.view import View


def sort_outside_by_distance(xp: Any, projection: Projection, view: View, num: int) -> None:
    """Replace the depths of those of `num` projected splats whose centre is outside the picture, in place.

    Blending sorts splats by the z of their centre. For a large splat beside the camera that is not the depth of the
    part in the picture: as the centre crosses the camera plane, z approaches 0 and the splat hides everything. The
    depth becomes the z of a point as far from the camera as the centre, on the nearest ray within the picture's margin:
    unchanged inside, continuous at the margin.
    """
    depths, means2d = projection.depths[:num], projection.means2d[:num]
    with np.errstate(all="ignore"):  # rows of culled splats are undefined
        depths[...] = xp.where(depths > 0, depths * depth_factors(xp, means2d, view), 0)


def depth_factors(xp: Any, means2d: Any, view: View) -> Any:
    """Depth in the picture's margin over z, [N], of points at pixels `means2d` [N, 2]; 1 inside."""
    squares = clamped_squares = 1.0
    pinhole = ((view.fx, view.cx), (view.fy, view.cy))
    limits = zip(*(limit.tolist() for limit in view.slope_limits), strict=True)
    for axis, ((focal, center), (low, high)) in enumerate(zip(pinhole, limits, strict=True)):
        slopes = (means2d[:, axis] - center) / focal
        squares = squares + slopes**2
        clamped_squares = clamped_squares + xp.clip(slopes, low, high) ** 2
    return xp.sqrt(squares / clamped_squares)
