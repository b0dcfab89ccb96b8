"""Cameras that move while rows are taken."""

import dataclasses

import numpy as np

from splat_cli.scene.lens import RollingShutter
from splat_cli.scene.lens.distortion import Polynomial
from tests.views import ring_of_views

MOTION = RollingShutter((0.1, -0.2, 0.05), (0.3, -0.1, 0.2))


def test_poses_at_the_edges_come_back():
    w2c = ring_of_views(3)[1].w2c
    middle, found = RollingShutter.between(MOTION.pose(w2c, -0.5), MOTION.pose(w2c, 0.5))
    np.testing.assert_allclose(middle, w2c, atol=1e-12)
    np.testing.assert_allclose(found.rotation, MOTION.rotation, atol=1e-12)
    np.testing.assert_allclose(found.shift, MOTION.shift, atol=1e-12)


def test_points_are_seen_from_the_pose_of_their_row():
    still = dataclasses.replace(ring_of_views(3)[1], distortion=Polynomial())
    view = dataclasses.replace(still, rolling_shutter=MOTION)
    points = np.random.default_rng(0).normal(0, 0.3, (50, 3))
    pixels, distances, inside = view.project(points)
    assert inside.sum() > 10
    assert np.abs(pixels - still.project(points)[0])[inside].max() > 1
    for point, pixel, distance in zip(points[inside], pixels[inside], distances[inside], strict=True):
        moved = dataclasses.replace(still, w2c=MOTION.pose(view.w2c, pixel[1] / view.height - 0.5))
        np.testing.assert_allclose(moved.project(point[None])[0][0], pixel, atol=1e-3)
        np.testing.assert_allclose(distance, np.linalg.norm(point - view.center))


def test_rays_and_points_agree():
    """The origin and direction of a row's ray, and the point seen from there."""
    times, rays = np.array([-0.5, 0.1, 0.4]), np.array([[0.1, 0.2, 1.0], [-0.3, 0.1, 1.0], [0.0, -0.2, 1.0]])
    directions, origins = MOTION.rays(rays, times)
    np.testing.assert_allclose(MOTION.moved(origins + 2 * directions, times), 2 * rays, atol=1e-12)
