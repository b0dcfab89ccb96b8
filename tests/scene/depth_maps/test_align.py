"""Depth maps aligned with their views: undistorted, not larger, shrunk to fit."""

from dataclasses import replace

import numpy as np

from splat_cli.scene.depth_maps import aligned, shrink_factor
from splat_cli.scene.lens import Lens
from splat_cli.scene.lens.distortion import Polynomial
from splat_cli.scene.view import DepthFile
from tests.views import unplaced_view


def test_a_distorted_map_is_undistorted_with_its_photograph():
    """The values of the map are its column numbers: each ray reads the column that it hits in the photograph."""
    lens = Lens(160, 120, 110.0, 110.0, 80.0, 60.0, Polynomial(radial=(-0.2, 0.05)))
    view = replace(unplaced_view(lens.pinhole.width, lens.pinhole.height), lens=lens)
    columns = np.tile(np.arange(80, dtype=np.float32), (60, 1))
    found = aligned(columns, view)
    pinhole = lens.pinhole
    height, width = found.shape
    rows, across = np.mgrid[:height, :width] + 0.5
    x = (across * pinhole.width / width - pinhole.cx) / pinhole.fx
    y = (rows * pinhole.height / height - pinhole.cy) / pinhole.fy
    seen = lens.distortion.distort(np.stack([x, y], axis=-1))[..., 0] * lens.fx + lens.cx
    assert np.nanmax(np.abs(found + 0.5 - seen / 2)) < 0.6
    assert np.isfinite(found).mean() > 0.95


def test_maps_are_no_larger_than_their_views_and_shrink_to_fit():
    values = np.arange(48.0, dtype=np.float32).reshape(6, 8)
    view = unplaced_view(4, 3)
    assert aligned(values, view).tolist() == [[9, 11, 13, 15], [25, 27, 29, 31], [41, 43, 45, 47]]
    assert aligned(values, unplaced_view(16, 12)).shape == (6, 8)
    with_map = replace(unplaced_view(40, 30), depth=DepthFile("a.png"))
    assert shrink_factor([with_map, view], 3600) == 1
    assert shrink_factor([with_map, view], 3599) == 2
    assert aligned(values, view, shrink=2).shape == (1, 2)
