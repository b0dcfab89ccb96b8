"""Order of splats with centres outside the picture, in novel views."""

import numpy as np
import pytest

from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.splats import Splats
from splat_cli.render.project import Projection
from splat_cli.render.view import ViewRenderer, sort_outside_by_distance
from splat_cli.scene.view import View

VIEW = View("view", None, 64, 48, 50.0, 50.0, 32.0, 24.0, np.eye(4))


def test_a_large_splat_beside_the_camera_hides_nothing_in_front(backend):
    """A red ball 3 units ahead, and a green wall 100 units to the side with its centre crossing the camera's plane."""
    splats = SplatArrays(
        means=np.array([[0, 0, 3], [100, 0, 2]], np.float32),
        log_scales=np.log(np.array([[0.4, 0.4, 0.4], [4, 200, 200]], np.float32)),
        quats=np.array([[1, 0, 0, 0]] * 2, np.float32),
        logit_opacities=np.array([9, 2], np.float32),
        sh0=np.array([[1.7, -1.7, -1.7], [-1.7, 1.7, -1.7]], np.float32),
        shN=np.zeros((2, 0, 3), np.float32),
    )
    red, green = (
        ViewRenderer(backend, Splats.from_arrays(backend, splats), [VIEW], novel_views=novel).render(0)[24, 32, :2]
        for novel in (True, False)
    )
    assert red[0] > 0.9 > 0.1 > red[1]
    assert green[1] > 0.5 > green[0]  # in training order it covers the ball


def test_depths_change_outside_the_picture_only(backend):
    xp = backend.xp
    projection = Projection.allocate(backend, 5, 1)
    pixels = [(1, 1), (70, 20), (1032, 24), (32, -976), (np.nan, 0)]  # the second is within the margin of 15 %
    projection.depths[...] = xp.asarray([2, 2, 2, 2, 0], "float32")
    projection.means2d[...] = xp.asarray(pixels, "float32")
    sort_outside_by_distance(xp, projection, VIEW, 5)
    edge_x, edge_y = (1.15 * 64 - 32) / 50, (24 + 0.15 * 48) / 50
    expected = [2, 2, 2 * np.sqrt((1 + 20**2) / (1 + edge_x**2)), 2 * np.sqrt((1 + 20**2) / (1 + edge_y**2)), 0]
    assert backend.download(projection.depths) == pytest.approx(expected, rel=1e-5)
