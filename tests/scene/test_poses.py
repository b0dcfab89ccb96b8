"""Similarity transforms and offsets of cameras."""

import dataclasses

import numpy as np
import pytest

from splat_cli.scene.poses import (
    Similarity,
    intrinsics_offset,
    moved_pose,
    moved_views,
    pose_offset,
    similarity_between,
)
from splat_cli.scene.quaternion import rotation_from_vector
from tests.views import ring_of_views

MOVED = Similarity(1.7, rotation_from_vector(np.array([0.3, -1.2, 2.0])), np.array([5.0, -3.0, 0.5]))


def test_similarity_is_found_again():
    views = ring_of_views(7)
    found = similarity_between(views, [MOVED.apply(view) for view in views])
    np.testing.assert_allclose(found.scale, MOVED.scale)
    np.testing.assert_allclose(found.rotation, MOVED.rotation, atol=1e-12)
    np.testing.assert_allclose(found.translation, MOVED.translation, atol=1e-12)


def test_one_camera_is_enough_and_keeps_its_scale():
    view = ring_of_views(1)[0]
    other = dataclasses.replace(view, w2c=moved_pose(view.w2c, np.array([0.1, 0.2, -0.3, 1.0, 2.0, 3.0])))
    found = similarity_between([view], [other])
    assert found.scale == 1
    np.testing.assert_allclose(found.apply(view).w2c, other.w2c, atol=1e-12)


@pytest.mark.parametrize("turn", [(0, 0, 0), (1e-9, 0, 2e-9), (0.3, -1.2, 2.0), (3.0, 0.5, 0.0)])
def test_offset_between_two_views_is_found_again(turn):
    offset = np.array([*turn, 1.0, 2.0, -3.0, 0.05, 0.1, -0.2, 0.03, -0.01])
    view = dataclasses.replace(ring_of_views(3)[1], radial=(0.01, 0.0))
    other = moved_views([view], offset[None])[0]
    np.testing.assert_allclose(pose_offset(view, other), offset[:6], atol=1e-9)
    np.testing.assert_allclose(intrinsics_offset(view, other), offset[6:], atol=1e-12)


def test_a_moved_camera_sees_moved_points_in_the_same_directions():
    view, point = ring_of_views(3)[1], np.array([0.2, -0.1, 0.4])
    seen = view.w2c[:3, :3] @ point + view.w2c[:3, 3]
    w2c = MOVED.apply(view).w2c
    again = w2c[:3, :3] @ (MOVED.scale * MOVED.rotation @ point + MOVED.translation) + w2c[:3, 3]
    np.testing.assert_allclose(again, MOVED.scale * seen, atol=1e-12)


def test_radial_distortion_moves_points_but_folds_none_into_the_image():
    """At (0.2, 0.1), d = 1 - 0.3 * 0.05 + 0.4 * 0.05^2. Far outside, the polynomial would be negative."""
    view = dataclasses.replace(ring_of_views(1)[0], w2c=np.eye(4), radial=(-0.3, 0.4))
    points = np.array([[0.4, 0.2, 2.0], [6.0, 0.0, 2.0], [4.0, 0.0, 2.0]])
    pixels, depths, inside = view.project(points)
    factor = 1 - 0.015 + 0.001
    expected = [view.fx * 0.2 * factor + view.cx, view.fy * 0.1 * factor + view.cy]
    np.testing.assert_allclose(pixels[0], expected)
    np.testing.assert_allclose(depths, 2)
    assert inside.tolist() == [True, False, False]
