"""Interpolated camera paths, and views at another size."""

import dataclasses
import itertools

import numpy as np
import pytest

from splat_cli.scene.quaternion import rotation_from_vector
from splat_cli.scene.trajectories.camera_path import interpolate_path, with_size
from tests.views import ring_of_views


def test_path_begins_and_ends_at_its_cameras():
    views = ring_of_views()
    frames = interpolate_path(views, 25)
    assert len(frames) == 25
    np.testing.assert_allclose(frames[0].w2c, views[0].w2c, atol=1e-9)
    np.testing.assert_allclose(frames[-1].w2c, views[-1].w2c, atol=1e-9)


def test_path_on_a_ring_stays_near_it_at_even_speed_and_rotates_properly():
    frames = interpolate_path(ring_of_views(), 200)
    centers = np.array([frame.center for frame in frames])
    np.testing.assert_allclose(np.linalg.norm(centers, axis=1), 3, rtol=0.01)
    speeds = np.linalg.norm(np.diff(centers, axis=0), axis=1)
    assert speeds.max() < 1.3 * speeds.min()
    for frame in frames:
        rotation = frame.w2c[:3, :3]
        np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-9)
        assert np.linalg.det(rotation) == pytest.approx(1)


@pytest.mark.parametrize("views", [ring_of_views(1), [ring_of_views(1)[0]] * 3, ring_of_views(2)])
def test_few_or_equal_cameras_make_a_path_too(views):
    for frame in interpolate_path(views, 5):
        assert np.isfinite(frame.w2c).all()


def test_path_through_a_half_turn_is_not_mirrored():
    first = ring_of_views(1)[0]
    turned = [first.w2c @ np.diag([*signs, 1.0]) for signs in ((1, 1, 1), (-1, -1, 1), (1, -1, -1), (-1, 1, -1))]
    views = [dataclasses.replace(first, w2c=w2c) for w2c in turned]
    frames = interpolate_path(views, 40)
    assert [round(np.linalg.det(frame.w2c[:3, :3]), 9) for frame in frames] == [1.0] * 40


@pytest.mark.parametrize("degrees", [30, 150, 180])
def test_path_between_two_cameras_turns_at_constant_speed(degrees):
    """A spherical linear interpolation, about the axis between both."""
    first = ring_of_views(1)[0]
    last = dataclasses.replace(first, w2c=first.w2c.copy())
    last.w2c[:3] = rotation_from_vector(np.radians([0, 0.6 * degrees, 0.8 * degrees])) @ first.w2c[:3]
    turns = [frame.w2c[:3, :3] @ first.w2c[:3, :3].T for frame in interpolate_path([first, last], 11)]
    angles = np.degrees([np.arccos(np.clip((np.trace(turn) - 1) / 2, -1, 1)) for turn in turns])
    np.testing.assert_allclose(angles, np.linspace(0, degrees, 11), atol=1e-4)


def test_path_through_cameras_that_turn_far_is_smooth():
    """No frame may turn by more than twice the mean."""
    first = ring_of_views(1)[0]
    axes = ([0, 0, 0], [0, 100, 0], [100, 0, 0], [0, 0, 100])
    views, w2c = [], first.w2c
    for axis in axes:
        w2c = w2c.copy()
        w2c[:3] = rotation_from_vector(np.radians(axis)) @ w2c[:3]
        views.append(dataclasses.replace(first, w2c=w2c))
    frames = interpolate_path(views, 37)
    turns = [two.w2c[:3, :3] @ one.w2c[:3, :3].T for one, two in itertools.pairwise(frames)]
    angles = np.degrees([np.arccos(np.clip((np.trace(turn) - 1) / 2, -1, 1)) for turn in turns])
    assert angles.max() < 2 * angles.mean()
    for view in views:
        assert min(np.abs(frame.w2c - view.w2c).max() for frame in frames) < 1e-3


def test_one_frame_is_the_first_camera():
    (frame,) = interpolate_path(ring_of_views(), 1)
    np.testing.assert_allclose(frame.w2c, ring_of_views()[0].w2c, atol=1e-9)


def test_other_size_keeps_the_vertical_field_of_view():
    view = ring_of_views(1)[0]
    double = with_size(view, 80, 60)
    assert (double.fx, double.fy, double.cx, double.cy) == (70, 72, 42, 26)
    wide = with_size(view, 100, 30)
    assert (wide.fy, wide.cy, wide.cx - 50) == (view.fy, view.cy, view.cx - 20)
    assert with_size(dataclasses.replace(view), 40, 30).fx == view.fx
