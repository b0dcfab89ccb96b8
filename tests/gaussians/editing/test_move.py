"""Scaled, rotated and translated splats look alike to a camera moved in the same way."""

import dataclasses

import numpy as np
import pytest

from splat_cli.gaussians.editing.edits import Edits
from splat_cli.gaussians.editing.move import angles_about_axes, rotated, rotation_about_axes
from splat_cli.gaussians.splats import Splats
from tests.gaussians.some_splats import some_splats
from tests.views import render_view, ring_of_views

SCALE, DEGREES, OFFSET = 1.7, (20.0, -110.0, 65.0), (3.0, -1.0, 0.5)


def scene(degree):
    splats = some_splats(150, degree)
    splats.log_scales[:] = splats.log_scales / 2 - 2
    splats.shN[:] /= 3
    return splats


def moved_along(view):
    """The view after scaling, rotation and translation of everything."""
    rotation = rotation_about_axes(DEGREES)
    w2c = np.eye(4)
    w2c[:3, :3] = view.w2c[:3, :3] @ rotation.T
    w2c[:3, 3] = SCALE * view.w2c[:3, 3] - w2c[:3, :3] @ OFFSET
    return dataclasses.replace(view, w2c=w2c)


@pytest.mark.parametrize("degree", range(4))
def test_moved_scene_and_camera_give_the_same_picture(backend, degree):
    splats, view = scene(degree), ring_of_views(3, width=96, height=72)[1]
    moved = Edits(scale=SCALE, rotate=DEGREES, translate=OFFSET).apply(splats)
    before = render_view(backend, Splats.from_arrays(backend, splats), view)
    after = render_view(backend, Splats.from_arrays(backend, moved), moved_along(view))
    assert before.std() > 0.1
    # a splat just inside or outside a threshold may change sides
    assert np.abs(before - after).mean() < 1e-4
    assert np.abs(before - after).max() < 0.02


def test_colors_turn_with_the_splats(backend):
    """Without the rotation the picture differs, so the test above can fail."""
    splats, view = scene(3), ring_of_views(3, width=96, height=72)[1]
    moved = Edits(scale=SCALE, rotate=DEGREES, translate=OFFSET).apply(splats)
    stale = dataclasses.replace(moved, shN=splats.shN)
    pictures = [render_view(backend, Splats.from_arrays(backend, s), moved_along(view)) for s in (moved, stale)]
    assert np.abs(pictures[0] - pictures[1]).mean() > 0.01


@pytest.mark.parametrize("degrees", [DEGREES, (0.0, 0.0, 0.0), (170.0, 90.0, -20.0), (-30.0, 60.0, 179.0)])
def test_angles_of_a_rotation(degrees):
    rotation = rotation_about_axes(degrees)
    np.testing.assert_allclose(rotation_about_axes(angles_about_axes(rotation)), rotation, atol=1e-7)


def test_there_and_back():
    splats = scene(3)
    there = rotation_about_axes(DEGREES)
    back = rotated(rotated(splats, there), there.T)
    np.testing.assert_allclose(back.means, splats.means, atol=1e-5)
    np.testing.assert_allclose(back.shN, splats.shN, atol=1e-5)


def test_turns_follow_the_order_of_the_axes():
    turned = rotation_about_axes((90, 0, 90)) @ [0, 1, 0]  # about x to z; the turn about z does not move it
    np.testing.assert_allclose(turned, [0, 0, 1], atol=1e-12)
