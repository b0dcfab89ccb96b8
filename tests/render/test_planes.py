"""Planes among points, splats that lie on them, and depths of these splats."""

import numpy as np
import pytest

from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.splats import Splats
from splat_cli.render.depth_fusion import put_on_planes, render_depth_maps
from splat_cli.render.planes import PlanarSplats, Planes, find_planes
from splat_cli.scene.view import View

FRONT = View("front", None, 20, 16, 20.0, 20.0, 10.0, 8.0, np.eye(4))
"""Looks along z from the origin."""
SLANTED = Planes(np.array([[0.6, 0.0, -0.8]]), np.array([-4.0]))
"""z = 5 + 0.75 x"""


def test_walls_are_found_among_noise_and_clutter():
    rng = np.random.default_rng(1)
    x, y, noise = rng.uniform(-5, 5, (3, 3000))
    wall = np.c_[np.full(3000, 2.0) + 0.02 * noise, x, y]
    floor = np.c_[x, np.full(3000, -1.0) + 0.02 * noise, y]
    clutter = rng.uniform(-5, 5, (1500, 3))
    planes = find_planes(np.concatenate([wall, floor[:2000], clutter]), reach=0.4)
    np.testing.assert_allclose(np.abs(planes.normals), [[1, 0, 0], [0, 1, 0]], atol=0.01)
    np.testing.assert_allclose(planes.offsets * planes.normals.sum(axis=1), [2, -1], atol=0.02)


def test_curved_surfaces_have_no_plane():
    directions = np.random.default_rng(2).normal(size=(8000, 3))
    points = 3 * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    assert len(find_planes(points, reach=0.4).offsets) == 0
    assert len(find_planes(points[:0], reach=0.4).offsets) == 0


def flat_splats(backend, means, axes):
    """Wide, opaque splats whose shortest axis is `axes`: unit vectors in the xz plane."""
    n, half = len(means), np.arctan2(axes[:, 0], axes[:, 2]) / 2
    arrays = SplatArrays(
        means=np.asarray(means, np.float32),
        log_scales=np.tile(np.log([2, 2, 0.01]), (n, 1)).astype(np.float32),
        quats=np.c_[np.cos(half), np.zeros(n), np.sin(half), np.zeros(n)].astype(np.float32),
        logit_opacities=np.full(n, 5, np.float32),
        sh0=np.zeros((n, 3), np.float32),
        shN=np.zeros((n, 0, 3), np.float32),
    )
    return Splats.from_arrays(backend, arrays)


def test_splats_belong_to_a_plane_that_is_near_and_parallel(backend):
    along, across = SLANTED.normals[0], np.array([0.8, 0.0, 0.6])
    points = np.array([[0, 0, 5], [0, 1, 5.3], [0, 0, 5.6], [0, 0, 5]])
    splats = flat_splats(backend, points, np.array([along, along, along, across]))
    found = backend.download(PlanarSplats(splats, SLANTED, 0.4).plane_from_splat)
    assert found.tolist() == [0, 0, -1, -1]


def test_nearest_plane_is_chosen(backend):
    planes = Planes(np.array([[0, 0, 1.0]] * 3), np.array([5.0, 5.2, 5.5]))
    splats = flat_splats(backend, [[0, 0, 5.24]], np.array([[0, 0, 1.0]]))
    assert backend.download(PlanarSplats(splats, planes, 0.4).plane_from_splat).tolist() == [1]


def test_depths_are_those_of_the_plane_not_of_the_splat(backend):
    splats = flat_splats(backend, [[0, 0, 5.3]], SLANTED.normals)
    maps = render_depth_maps(backend, splats, [FRONT], False, lambda number: None)
    assert backend.download(maps.of_view(0)[0])[8, 10] == pytest.approx(5.3)
    counted = []
    depths = put_on_planes(maps, PlanarSplats(splats, SLANTED, 0.4), False, counted.append).of_view(0)[0]
    x = (np.arange(6, 14) + 0.5 - FRONT.cx) / FRONT.fx
    np.testing.assert_allclose(backend.download(depths)[8, 6:14], 5 / (1 - 0.75 * x), rtol=1e-4)
    assert counted == [1]
    constant = put_on_planes(maps, PlanarSplats(splats, SLANTED, 0.2), False, counted.append).of_view(0)[0]
    np.testing.assert_allclose(backend.download(constant)[8, 6:14], 5.3, rtol=1e-5)


def test_splats_on_a_plane_along_the_rays_keep_their_depth(backend):
    grazing = Planes(np.array([[0.0, 1.0, 0.0]]), np.array([0.3]))
    splats = flat_splats(backend, [[0, 0.3, 5]], np.array([[0.0, 0.0, 1.0]]))
    planar = PlanarSplats(splats, grazing, 0.4)
    planar.plane_from_splat[:] = 0
    np.testing.assert_allclose(backend.download(planar.inverse_depths(FRONT)), [[0, 0, 0.2]], rtol=1e-6)
