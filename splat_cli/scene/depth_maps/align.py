"""A depth map in the pixels of its view: undistorted, not larger than needed."""

import numpy as np

from splat_cli.scene.lens import Lens
from splat_cli.scene.view import View

_RATIO_TOLERANCE = 0.03


def aligned(values: np.ndarray, view: View, shrink: int = 1) -> np.ndarray:
    """Values float32 [h, w] of a photograph, of any resolution, as its pinhole view's; NaN outside of the photograph.

    At most as large as the view shrunk by this factor. Nothing is interpolated: depths jump at edges. ValueError for
    another aspect ratio.
    """
    height, width = values.shape
    whole = view.lens or view
    if abs(width * whole.height / (height * whole.width) - 1) > _RATIO_TOLERANCE:
        raise ValueError(f"is {width}x{height}, the photograph {whole.width}x{whole.height}: another aspect ratio")
    if view.lens is not None:
        values = _undistorted(values, view.lens)
    return reduced(values, max(1, view.height // shrink), max(1, view.width // shrink))


def reduced(values: np.ndarray, height: int, width: int) -> np.ndarray:
    """Values [h, w] downscaled to at most [height, width] by nearest-neighbour sampling."""
    for axis, size in enumerate((height, width)):
        have = values.shape[axis]
        if have > size:
            values = values.take(((np.arange(size) + 0.5) * have / size).astype(int), axis)
    return values


def resized(values: np.ndarray, height: int, width: int) -> np.ndarray:
    """Values [h, w] resampled to [height, width] by nearest-neighbour sampling."""
    rows = ((np.arange(height) + 0.5) * values.shape[0] / height).astype(int)
    columns = ((np.arange(width) + 0.5) * values.shape[1] / width).astype(int)
    return values[rows[:, None], columns]


def _undistorted(values: np.ndarray, lens: Lens) -> np.ndarray:
    assert lens.distortion is not None
    height, width = values.shape
    small, x, y = lens.resized(width, height), width / lens.width, height / lens.height
    pinhole = lens.pinhole.resized(max(1, round(lens.pinhole.width * x)), max(1, round(lens.pinhole.height * y)))
    rows, columns = np.mgrid[: pinhole.height, : pinhole.width] + 0.5
    rays = np.stack([(columns - pinhole.cx) / pinhole.fx, (rows - pinhole.cy) / pinhole.fy], axis=-1)
    with np.errstate(all="ignore"):
        seen = lens.distortion.distort(rays) * [small.fx, small.fy] + [small.cx, small.cy]
        inside = np.all((seen >= 0) & (seen < [width, height]), axis=-1)
    column, row = np.where(inside[..., None], seen, 0).astype(int).transpose(2, 0, 1)
    return np.where(inside, values[row, column], np.float32(np.nan))
