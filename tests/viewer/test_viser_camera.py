"""Cameras of browsers: conversion from and to views, orbit centre."""

import numpy as np
import pytest

from splat_cli.scene.quaternion import quat_from_matrix
from splat_cli.viewer.html import pivot_share
from splat_cli.viewer.server import field_of_view, pose_of, view_from
from tests.viewer.stand_ins import browser_camera
from tests.views import ring_of_views


def test_browser_camera_matches_the_view():
    view = ring_of_views()[4]
    found = view_from(browser_camera(view), "a")
    np.testing.assert_allclose(found.w2c, view.w2c, atol=1e-9)
    assert (found.width, found.height) == (40, 30)
    assert found.fy == pytest.approx(view.fy)
    np.testing.assert_allclose(pose_of(view)[1], quat_from_matrix(view.w2c[:3, :3].T))


def test_narrow_windows_show_all_of_the_view():
    view = ring_of_views()[0]
    own = field_of_view(view)
    assert field_of_view(view, 10.0) == own
    assert np.tan(field_of_view(view, 0.5) / 2) == pytest.approx(view.width / view.fx / 2 / 0.5)


def test_orbit_center_is_near_unless_cameras_surround_the_scene():
    views = ring_of_views(12)
    assert pivot_share(views) == pivot_share([]) == 1
    assert pivot_share(views[:4]) < 0.5
