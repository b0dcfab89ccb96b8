"""Points in directions where photographs show the same colour."""

import dataclasses

import numpy as np
import pytest

from splat_cli.scene.images.image_set import ImageSet
from splat_cli.scene.points.initial_points import sky_points, sphere_directions
from tests.views import ring_of_views

POINTS = np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32)


def rays_of(view):
    """Unit vectors in the world, float64 [H, W, 3]."""
    column, row = np.meshgrid(np.arange(view.width) + 0.5, np.arange(view.height) + 0.5)
    rays = np.stack([(column - view.cx) / view.fx, (row - view.cy) / view.fy, np.ones_like(row)], axis=-1)
    return rays @ view.w2c[:3, :3] / np.linalg.norm(rays, axis=-1, keepdims=True)


def sky(view):
    """uint8 [H, W, 3]: a smooth sky, which depends only on the direction."""
    return (128 + 100 * rays_of(view)).astype(np.uint8)


def wall(view):
    """uint8 [H, W, 3]: a ball of radius 8 around all cameras, with a pattern."""
    rays, center = rays_of(view), view.center
    along = -(rays @ center)
    hit = center + (along + np.sqrt(along**2 - center @ center + 64))[..., None] * rays
    return (128 + 120 * np.sin(5 * hit)).astype(np.uint8)


def photographs(picture, num_views=20, masks=None):
    views = [
        dataclasses.replace(view, width=64, height=48, fx=60.0, fy=60.0, cx=32.0, cy=24.0)
        for view in ring_of_views(num_views, radius=3.0)
    ]
    return ImageSet(views, [picture(view) for view in views], masks or [None] * num_views, [])


def test_points_are_far_away_in_the_colour_of_the_sky():
    points, colors = sky_points(photographs(sky), POINTS)
    assert len(points) > 1000
    assert np.linalg.norm(points, axis=1).min() > 4 * np.quantile(np.linalg.norm(POINTS, axis=1), 0.98)
    directions = points / np.linalg.norm(points, axis=1, keepdims=True)
    assert np.abs(colors - (128 + 100 * directions)).mean() < 10
    assert (points.dtype, colors.dtype, colors.shape) == (np.float32, np.uint8, points.shape)


def test_few_on_a_surface_that_is_near():
    assert len(sky_points(photographs(wall), POINTS)[0]) < 0.2 * len(sky_points(photographs(sky), POINTS)[0])


def test_no_sky_points_where_points_are_known():
    """A shell of points in front of the sky, nearer than the cameras' distance."""
    shell = 2 * sphere_directions(20_000).astype(np.float32)
    assert len(sky_points(photographs(sky), shell)[0]) == 0


def test_few_directions_are_chance():
    """The same part of the sky, 30 or 6 degrees wide; the rest differs from photograph to photograph."""

    def found(width):
        every = photographs(sky, num_views=40)
        rng = np.random.default_rng(0)
        pictures = []
        for view, image in zip(every.views, every.images, strict=True):
            inside = rays_of(view)[:, :, 0] > np.cos(np.radians(width / 2))
            pictures.append(np.where(inside[:, :, None], image, rng.integers(0, 256, 3)).astype(np.uint8))
        return len(sky_points(every._replace(images=pictures), POINTS)[0])

    assert found(30) > 100
    assert found(6) == 0


def test_directions_of_few_views_are_ignored():
    assert len(sky_points(photographs(sky, num_views=3), POINTS)[0]) == 0


def test_masked_pixels_do_not_count():
    masks = [np.zeros((48, 64), np.uint8)] * 20
    assert len(sky_points(photographs(sky, masks=masks), POINTS)[0]) == 0
    masks = [None] * 10 + [np.zeros((48, 64), np.uint8)] * 10
    blue = photographs(sky, masks=masks)
    other = blue._replace(images=[*blue.images[:10], *(255 - image for image in blue.images[10:])])
    for found, expected in zip(sky_points(other, POINTS), sky_points(blue, POINTS), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_minority_is_outvoted():
    every = photographs(sky)
    some = every._replace(images=[255 - image if k % 5 == 0 else image for k, image in enumerate(every.images)])
    whole, found = len(sky_points(every, POINTS)[0]), len(sky_points(some, POINTS)[0])
    assert 0.5 * whole < found <= whole


@pytest.mark.parametrize("count", [1, 2, 1000])
def test_directions_are_unit_vectors_all_around(count):
    directions = sphere_directions(count)
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1)
    if count > 2:
        assert np.abs(directions.mean(axis=0)).max() < 0.01
