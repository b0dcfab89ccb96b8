"""Focus point and up direction of cameras."""

import dataclasses

import numpy as np

from splat_cli.scene.trajectories.focus import focus_point, levelled, look_at, up_direction
from tests.scene.trajectories.captures import (
    FOCUS,
    UP,
    cameras,
    moved,
    on_an_arc,
    rolled,
)
from tests.views import ring_of_views


def test_focus_is_where_the_axes_nearly_meet():
    views = cameras()
    assert np.linalg.norm(focus_point(views) - FOCUS) < 0.02
    np.testing.assert_allclose(focus_point(ring_of_views()), 0, atol=1e-12)


def test_focus_is_robust_to_stray_cameras():
    """A block of photographs whose poses are wrong, as in one of the scenes of Mip-NeRF 360."""
    views = cameras(40)
    stray = [moved(view, [4.0, 1.0, -2.0]) for view in cameras(8, seed=1)]
    assert np.linalg.norm(focus_point([*views, *stray]) - FOCUS) < 0.05


def test_focus_of_parallel_axes_is_ahead():
    view = ring_of_views(1)[0]
    beside = dataclasses.replace(view, w2c=look_at(view.center + [0, 0, 1], [0, 0, 1], -np.eye(3)[1]))
    for views in ([view], [view, beside]):
        ahead = [one.w2c[:3] @ [*focus_point(views), 1] for one in views]
        assert min(point[2] for point in ahead) > 0.1


def test_up_is_level_for_cameras_that_all_look_down_from_one_side():
    """The mean of their up directions is tilted by 15 degrees."""
    views = on_an_arc(120, height=1.5)
    mean = -np.mean([view.w2c[1, :3] for view in views], axis=0)
    assert mean @ UP / np.linalg.norm(mean) < np.cos(np.radians(10))
    assert up_direction(views) @ UP > np.cos(np.radians(0.3))


def test_up_direction_is_robust_to_rolled_cameras():
    views = on_an_arc(200, count=40, height=0.5)
    assert up_direction([*(rolled(view, 0.5) for view in views[:6]), *views[6:]]) @ UP > np.cos(np.radians(1))


def test_up_tilts_rolled_cameras_least():
    """Few cameras, all rolled: the fit converges slowly."""
    rng = np.random.default_rng(22)
    angles = np.radians(rng.normal(0, 12, 20))
    views = [rolled(view, angle) for view, angle in zip(on_an_arc(120, count=20, height=0.3), angles, strict=True)]
    right = np.array([view.w2c[0, :3] for view in views])
    up = up_direction(views)
    others = up + np.radians(2) * rng.normal(size=(2000, 3))
    others /= np.linalg.norm(others, axis=1, keepdims=True)
    assert np.abs(right @ up).sum() <= 1.005 * np.abs(right @ others.T).sum(axis=0).min()


def test_ground_determines_up_for_parallel_axes():
    """All cameras look down in the same direction. A wall or a slope that fits their roll is not the ground."""
    down = 0.5 * np.cross(UP, [1.0, 0, 0]) - 0.2 * UP
    template = ring_of_views(1)[0]
    places = [np.array([x, 0, 0]) for x in np.linspace(-1, 1, 9)]
    views = [dataclasses.replace(template, w2c=look_at(place, place + down, UP)) for place in places]
    rng = np.random.default_rng(0)
    flat = rng.uniform(-3, 3, (4000, 2))
    ground = flat[:, :1] * np.array([1.0, 0, 0]) + flat[:, 1:] * np.cross(UP, [1.0, 0, 0]) - 2 * UP
    slope = ground + 0.3 * flat[:, :1] * UP
    wall = flat[:, :1] * np.array([1.0, 0, 0]) + flat[:, 1:] * UP
    assert up_direction(views, ground) @ UP > np.cos(np.radians(1))
    for other in (wall, slope, ground[:0]):
        np.testing.assert_allclose(up_direction(views, other), up_direction(views), atol=1e-6)


def test_levelled_view_keeps_its_place_and_heading():
    view = cameras(1)[0]
    level = levelled(view, UP)
    np.testing.assert_allclose(level.center, view.center)
    assert abs(level.w2c[2, :3] @ UP) < 1e-12
    assert level.w2c[2, :3] @ view.w2c[2, :3] > 0.9
    down = dataclasses.replace(view, w2c=look_at(view.center, view.center - UP, UP))
    assert abs(levelled(down, UP).w2c[2, :3] @ UP) < 1e-9
