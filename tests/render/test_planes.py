"""Planes among points, and depth maps that end at them."""

import dataclasses

import numpy as np
import pytest

from splat_cli.render.camera import CameraTable
from splat_cli.render.depth_fusion import DepthMaps, unprojected
from splat_cli.render.planes import Planes, find_planes, flattened, solid_cells
from splat_cli.scene.view import View

pytest.importorskip("scipy")  # of the extra "mesh"

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


def cell(at=0, behind=0, deep=0):
    """Numbers of rays that end at a cell of a plane, behind it and deep behind it."""
    return [at, behind, deep]


def test_cells_are_solid_where_most_rays_end():
    counts = np.full((1, 5, 3), cell(at=0))
    counts[0] = [cell(2, 2), cell(2, 3), cell(2, 0, 3), cell(3), cell(0, 9)]
    assert solid_cells(counts).tolist() == [[1, 0, 0, 0, 0]]


def test_gaps_between_solid_cells_are_closed_except_openings():
    counts = np.full((40, 20, 3), cell(at=9))
    counts[2:8, 2:8] = cell(1, 9)
    counts[2:4, 12:14] = cell()  # an object stands before it
    counts[10:14, 10:14] = cell(0, 4, 5)
    counts[20:] = cell(0, 9)
    expected = np.zeros((40, 20))
    expected[:20] = 1
    expected[10:14, 10:14] = 0
    np.testing.assert_array_equal(solid_cells(counts), expected)


def maps_of_slanted_wall(backend, num_views):
    """Exact maps of views of SLANTED, turned about their optical axes, and the wall's depths [V, 48, 64]."""
    views = []
    for turn in np.linspace(0, 1, num_views):
        w2c = np.eye(4)
        w2c[:2, :2] = [[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]
        w2c[:3, 3] = 0.3 * turn, 0.1, 0.2
        views.append(View(f"{turn}", None, 64, 48, 70.0, 60.0, 30.0, 26.0, w2c))
    depths = []
    for view in views:
        x, y = (np.arange(64) + 0.5 - view.cx) / view.fx, (np.arange(48)[:, None] + 0.5 - view.cy) / view.fy
        normal = view.w2c[:3, :3] @ SLANTED.normals[0]
        distance = SLANTED.offsets[0] - SLANTED.normals[0] @ view.center
        depths.append(distance / (normal[0] * x + normal[1] * y + normal[2]))
    wall = np.array(depths, np.float32)
    begins = np.arange(num_views) * 64 * 48
    weights, colors = np.ones(wall.size, np.float32), np.zeros((wall.size, 3), np.uint8)
    arrays = (backend.upload(array) for array in (wall.ravel(), weights, colors))
    return DepthMaps(backend, views, CameraTable(backend, views), begins, *arrays), wall


def flattened_depths(maps, wall, depths, weights=None, planes=SLANTED, voxel=0.25):
    """Depths after `flattened`, of maps with other depths and weights; cells around the wall."""
    backend = maps.backend
    points = [backend.download(unprojected(backend.xp, v, maps.of_view(i)[0])) for i, v in enumerate(maps.views)]
    weights = np.ones_like(wall) if weights is None else weights
    changed = {"depths": backend.upload(depths.ravel()), "weights": backend.upload(weights.ravel())}
    result = flattened(dataclasses.replace(maps, **changed), planes, np.concatenate(points), voxel, lambda number: None)
    return backend.download(result.depths).reshape(wall.shape)


def test_rays_end_at_a_wall_unless_they_end_before_it_or_pass_an_opening(backend):
    maps, wall = maps_of_slanted_wall(backend, 4)
    depths = wall.copy()
    behind = np.random.default_rng(0).random(wall.shape) < 0.2
    depths[behind] += 1.0
    depths[0, 10:20, 10:20] -= 1.0
    depths[1, 30:34, 40:44] += 10.0  # others see the wall: an error of this view, but too deep for one
    expected = wall.copy()
    expected[0, 10:20, 10:20] = depths[0, 10:20, 10:20]
    expected[1, 30:34, 40:44] = depths[1, 30:34, 40:44]
    found = flattened_depths(maps, wall, depths)
    inside = slice(None), slice(6, -6), slice(6, -6)  # few rays cross the outermost cells
    np.testing.assert_allclose(found[inside], expected[inside], rtol=1e-4)


def test_niches_openings_and_holes_of_maps_stay(backend):
    maps, wall = maps_of_slanted_wall(backend, 1)
    depths, weights = wall.copy(), np.ones_like(wall)
    some = np.random.default_rng(0).random(wall.shape)
    depths[:, :, 30:] += np.where(some < 0.4, -1.0, 0.5)[:, :, 30:]  # a niche with things before the wall
    hole = slice(None), slice(20, 26), slice(10, 16)
    depths[hole] += np.where(some < 0.75, 10.0, 0.5)[hole]  # a small opening
    is_changed = np.abs(flattened_depths(maps, wall, depths, voxel=0.2) - depths) > 1e-3
    assert not is_changed[:, :, 33:].any()
    assert is_changed[hole].mean() < 0.1
    weights[:], depths = 0, wall + np.float32(0.1)
    np.testing.assert_array_equal(flattened_depths(maps, wall, depths, weights), depths)


def test_rays_along_a_plane_keep_their_depth(backend):
    maps, wall = maps_of_slanted_wall(backend, 1)
    grazing = Planes(np.array([[0.0, 1.0, 0.0]]), np.array([-0.1 + 0.3]))
    depths = np.full_like(wall, 5.0)
    found = flattened_depths(maps, wall, depths, planes=grazing, voxel=1.0)
    assert (found[0, :30] == 5.0).all()
