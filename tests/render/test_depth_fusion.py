"""Depths of the surfaces of splats, and their fusion over views."""

import dataclasses

import numpy as np
import pytest

from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.splats import Splats
from splat_cli.render import depth_fusion
from splat_cli.render.camera import CameraTable
from splat_cli.render.depth_fusion import DepthMaps, FusedPoints, render_depth_maps, unprojected
from splat_cli.render.view import ViewRenderer
from splat_cli.scene.view import View
from tests.views import ring_of_views

FRONT = View("front", None, 20, 16, 20.0, 20.0, 10.0, 8.0, np.eye(4))
"""Looks along z from the origin."""


def layers(backend, depths, opacities):
    """Large splats across the z axis, nearest first."""
    n = len(depths)
    opacity = np.asarray(opacities, np.float32)
    arrays = SplatArrays(
        means=np.c_[np.zeros((n, 2)), depths].astype(np.float32),
        log_scales=np.tile(np.log([5, 5, 0.1]), (n, 1)).astype(np.float32),
        quats=np.tile(np.float32([1, 0, 0, 0]), (n, 1)),
        logit_opacities=np.log(opacity / (1 - opacity)),
        sh0=np.zeros((n, 3), np.float32),
        shN=np.zeros((n, 0, 3), np.float32),
    )
    return Splats.from_arrays(backend, arrays)


@pytest.mark.parametrize(
    ("opacities", "light_left", "expected"),
    [([0.9, 0.9, 0.9], 50, 2.0), ([0.3, 0.6, 0.9], 50, 4.0), ([0.3, 0.6, 0.9], 80, 2.0), ([0.3, 0.2, 0.1], 50, 0.0)],
)
def test_surface_is_where_less_of_the_light_is_left(backend, opacities, light_left, expected):
    depths = np.array([2.0, 4.0, 8.0])
    renderer = ViewRenderer(backend, layers(backend, depths, opacities), [FRONT])
    renderer.forward(0)
    values = backend.upload(depths[:, None].astype(np.float32))
    blended = backend.download(renderer.blended(0, values, light_left))
    assert blended[0, 8, 10] == pytest.approx(expected)


def plane_maps(backend, views, depth):
    """Maps of views that all show a plane at the same depth."""
    begins = np.cumsum([0, *(view.width * view.height for view in views)])
    num = int(begins[-1])
    depths = backend.upload(np.full(num, depth, np.float32))
    weights = backend.upload(np.ones(num, np.float32))
    colors = backend.upload(np.tile(np.uint8([10, 20, 30]), (num, 1)))
    return DepthMaps(backend, list(views), CameraTable(backend, views), begins[:-1], depths, weights, colors)


def fused_at(maps, points, truncation, chosen):
    """DepthMaps.fuse with colours, on the host."""
    fused = maps.fuse(maps.backend.upload(points.astype(np.float32)), truncation, chosen, with_colors=True)
    return FusedPoints(**{name: maps.backend.download(values) for name, values in vars(fused).items()})


def test_distances_are_positive_before_the_surface_and_unknown_far_behind(backend):
    maps = plane_maps(backend, [FRONT], 5.0)
    points = np.array([[0, 0, z] for z in (2.0, 4.75, 5.0, 5.25, 6.0)] + [[50.0, 0, 5], [0, 0, -5]])
    fused = fused_at(maps, points, 0.5, np.arange(1))
    np.testing.assert_allclose(fused.distances, [1, 0.5, 0, -0.5, 0, 0, 0], atol=1e-6)
    np.testing.assert_array_equal(fused.totals, [1, 1, 1, 1, 0, 0, 0])
    np.testing.assert_array_equal(fused.near_totals, [0, 1, 1, 1, 0, 0, 0])
    np.testing.assert_array_equal(fused.colors[[0, 2]], [[0, 0, 0], [10, 20, 30]])


def test_fusion_is_the_weighted_mean_of_the_chosen_views(backend):
    beside = dataclasses.replace(FRONT, w2c=np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0.2], [0, 0, 0, 1.0]]))
    maps = plane_maps(backend, [FRONT, beside, FRONT], 5.0)
    pixels = FRONT.width * FRONT.height
    maps.weights[pixels : 2 * pixels] = 3.0
    fused = fused_at(maps, np.array([[0, 0, 4.8]]), 1.0, np.array([0, 1]))
    np.testing.assert_allclose(fused.distances, [(0.2 + 3 * 0.0) / 4], atol=1e-6)
    assert fused.totals[0] == 4


def test_pixels_that_other_views_contradict_lose_their_weight(backend):
    maps = plane_maps(backend, [FRONT] * 3, 5.0)
    wrong = 8 * FRONT.width + 10
    maps.depths[wrong] = 3.0
    kept = backend.download(maps.without_outliers(0.5).of_view(0)[1])
    assert kept[8, 10] == 0
    assert kept.sum() == kept.size - 1


def test_views_near_a_sphere_are_those_that_show_it():
    views = ring_of_views(8)
    maps = DepthMaps(None, views, None, np.zeros(8), None, None, None)
    point = views[0].center + views[0].w2c[2, :3] + 0.5 * views[0].w2c[0, :3]
    expected = [index for index, view in enumerate(views) if view.project(point[None])[2][0]]
    assert maps.views_near(point, 1e-6).tolist() == expected
    assert 0 < len(expected) < 8
    assert maps.views_near(point, 100.0).tolist() == list(range(8))


def test_unprojected_pixels_project_to_their_centres():
    view = ring_of_views()[3]
    depths = np.random.default_rng(0).uniform(1, 5, (view.height, view.width))
    points = unprojected(np, view, depths)
    pixels, z, _ = view.project(points)
    np.testing.assert_allclose(z, depths.ravel(), rtol=1e-6)
    np.testing.assert_allclose(pixels[view.width + 2], [2.5, 1.5], atol=1e-5)
    every_third = points.reshape(view.height, view.width, 3)[::3, ::3].reshape(-1, 3)
    np.testing.assert_allclose(unprojected(np, view, depths, stride=3), every_third, rtol=1e-6)


def test_maps_of_a_wall_have_its_depth_and_face_it(backend):
    splats = layers(backend, [4.0], [0.99])
    turned = dataclasses.replace(FRONT, radial=(0.1, 0.0))
    maps = render_depth_maps(backend, splats, [FRONT, turned], False, lambda number: None)
    depths, weights = map(backend.download, maps.of_view(1))
    assert depths[8, 10] == pytest.approx(4.0)
    assert 0.5 < weights[8, 10] <= 0.99
    assert maps.views[1].radial == (0, 0)


def test_surfaces_are_where_views_agree_most(backend, monkeypatch):
    """Maps of a wall that are tilted, each in its view, except at 70 %."""
    tilts, made = {50: 0.3, 60: 0.15, 70: 0.0, 80: -0.15}, []
    views = [dataclasses.replace(FRONT, w2c=np.eye(4) + np.outer([1, 0, 0, 0], [0, 0, 0, x])) for x in (-0.5, 0.0, 0.5)]

    def render(backend, splats, views, antialias, light_left):
        made.append(light_left)
        maps = plane_maps(backend, views, 4.0)
        columns = np.tile(np.linspace(-1, 1, FRONT.width), FRONT.height * len(views))
        return dataclasses.replace(maps, depths=maps.depths + backend.upload(np.float32(tilts[light_left] * columns)))

    monkeypatch.setattr(depth_fusion, "render_depth_maps", render)
    assert depth_fusion.light_left_behind(backend, None, views, False, 0.25) == 70
    assert made == [50, 60, 70, 80]
    assert depth_fusion.light_left_behind(backend, None, views[:1], False, 0.25) == 50
