"""Camera paths keep away from dense regions, and keep them out of their pictures."""

import dataclasses

import numpy as np
import pytest

from splat_cli.scene.trajectories.camera_path import CameraPath
from splat_cli.scene.trajectories.clearance import Obstacles
from splat_cli.scene.trajectories.focus import look_at
from tests.scene.trajectories.captures import (
    FOCUS,
    UP,
    angles_of,
    moved,
    on_an_arc,
)
from tests.views import ring_of_views


def test_paths_keep_away_from_dense_places():
    """Cameras avoid a pillar in their ring: near it they are farther out."""
    views = []
    for view in on_an_arc(340, count=80):
        angle = angles_of([view])[0]
        out = 0.9 * np.exp(-((angle / 15) ** 2)) * (view.center - 0.7 * UP - FOCUS)
        views.append(dataclasses.replace(view, w2c=look_at(view.center + out, FOCUS, UP)))
    pillar = FOCUS + [3.0, 0, 0] + np.linspace(-1, 2, 60)[:, None] * UP
    obstacles = Obstacles(pillar, views)
    assert obstacles.clearance(CameraPath("orbit").through(views)[0]) < obstacles.required
    assert obstacles.clearance(CameraPath("orbit").through(views, pillar)[0]) >= obstacles.required


def test_a_curve_bends_smoothly_away_from_an_obstacle():
    """A wall of 5 x 5 points close to a line; the ends of the line do not move."""
    line = np.linspace([-4.0, 0, 0], [4.0, 0, 0], 900)
    wall = np.array([[x, 0.1, z] for x in np.linspace(-0.5, 0.5, 5) for z in np.linspace(-0.5, 0.5, 5)])
    camera = moved(ring_of_views(1)[0], [-3.0, 1.1, 0])
    obstacles = Obstacles(wall, [camera])
    assert obstacles.distances(line).min() < 0.2 < obstacles.required == pytest.approx(0.5)
    bent = obstacles.avoid(line)
    assert obstacles.distances(bent).min() >= obstacles.required
    np.testing.assert_allclose(bent[[0, -1]], line[[0, -1]], atol=0.01)
    assert np.abs(np.diff(bent[::20], axis=0)[:, 1]).max() < 0.09  # steps were 0.18
    assert np.array_equal(Obstacles(wall[:0], [camera]).avoid(line), line)


def test_a_loop_that_is_bent_stays_closed():
    angles = np.linspace(0, 2 * np.pi, 800)
    loop = np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1)
    obstacles = Obstacles(np.array([[1.05, 0, 0]]), [moved(ring_of_views(1, radius=1.0)[0], [0.4, 0, 0])])
    bent = obstacles.avoid(loop)
    assert obstacles.distances(bent).min() >= obstacles.required > obstacles.distances(loop).min()
    np.testing.assert_allclose(bent[0], bent[-1], atol=1e-12)
    steps = np.diff(np.concatenate([bent, bent[1:3]]), 2, axis=0)
    assert np.abs(steps).max() < 5e-3


def test_open_line_far_from_the_origin_is_not_a_loop():
    """In coordinates of a map, the distance between its ends is tiny relative to the coordinates: 40 m of 5,000 km."""
    line = np.linspace([0, 0, 0], [0, 40, 0], 200) + [0, 5e6, 0]
    obstacles = Obstacles(np.array([[1, 5e6, 0]]), ring_of_views(3))
    obstacles.required = 2.0
    bent = obstacles.avoid(line)
    assert np.linalg.norm(bent[0] - line[0]) > 0.5
    np.testing.assert_allclose(bent[-1], line[-1], atol=0.1)


def test_a_path_keeps_its_pictures_free():
    """Only the smoothest orbit has the screen of points in front of cameras."""
    views = []
    for view in on_an_arc(340, count=80):
        angle = angles_of([view])[0]
        inwards = -0.35 * np.exp(-((angle / 12) ** 2)) * (view.center - 0.7 * UP - FOCUS)
        views.append(dataclasses.replace(view, w2c=look_at(view.center + inwards, FOCUS, UP)))
    screen = [
        FOCUS + [2.05, 0, 0] + y * np.cross(UP, [1.0, 0, 0]) + z * UP
        for y in np.linspace(-0.05, 0.05, 5)
        for z in np.linspace(0.3, 0.9, 12)
    ]
    object_in_focus = FOCUS + np.random.default_rng(0).normal(0, 0.2, (50, 3))
    obstacles = Obstacles(np.concatenate([screen, object_in_focus]), views)
    plain = CameraPath("orbit").through(views)[0]
    kept = CameraPath("orbit").through(views, np.concatenate([screen, object_in_focus]))[0]
    assert min(obstacles.depth(frame) for frame in plain) < obstacles.required_depth
    assert min(obstacles.depth(frame) for frame in kept) >= obstacles.required_depth


def test_a_walk_backs_off_where_something_stands_in_its_picture():
    """Two groups of cameras face a wall. No camera sees the object between the groups, nearer than the wall."""
    east, north = np.array([1.0, 0, 0]), np.cross(UP, [1.0, 0, 0])
    xs = np.concatenate([np.linspace(-12, -7, 12), np.linspace(7, 12, 12)])
    first = ring_of_views(1)[0]
    views = [dataclasses.replace(first, w2c=look_at(x * east, x * east + north, UP)) for x in xs]
    grid = np.linspace(-14, 14, 60)
    wall = np.array([x * east + 6 * north + z * UP for x in grid for z in np.linspace(-3, 3, 13)])
    thing = 1.5 * north + np.random.default_rng(0).normal(0, 0.1, (60, 3))
    dense = np.concatenate([wall, thing])
    obstacles = Obstacles(dense, views)
    walk = CameraPath("walk", 120).through(views, dense)[0]
    assert min(obstacles.depth(frame) for frame in walk) >= obstacles.required_depth
    assert obstacles.clearance(walk) >= obstacles.required
    steps = np.linalg.norm(np.diff([frame.center for frame in walk], axis=0), axis=1)
    assert steps.max() < 2 * np.median(steps)
