"""Orbits, arcs, spirals; the kind of a capture; options of camera paths."""

import dataclasses

import numpy as np
import pytest

from splat_cli.errors import UsageError
from splat_cli.scene.trajectories.camera_path import KINDS, CameraPath
from splat_cli.scene.trajectories.focus import Capture, focus_point, look_at
from tests.scene.trajectories.captures import (
    FOCUS,
    UP,
    angles_of,
    axes_meet,
    cameras,
    is_level,
    on_an_arc,
    walk,
)
from tests.views import ring_of_views


def test_an_orbit_looks_at_the_focus_upright_and_as_far_away_as_the_cameras():
    views = cameras()
    frames, fps = CameraPath("orbit", frames=40, focus=tuple(FOCUS), up=(0, -3, 4)).through(views)
    assert (len(frames), fps) == (40, 30)
    offsets = np.array([frame.center - FOCUS for frame in frames])
    np.testing.assert_allclose(offsets @ UP, 0.7, atol=1e-9)
    assert all(axes_meet(frame, FOCUS) and is_level(frame) for frame in frames)
    steps = np.linalg.norm(np.diff(offsets, axis=0, append=offsets[:1]), axis=1)  # the last leads back to the start
    assert steps.max() < 1.02 * steps.min()
    radii = np.linalg.norm(offsets - 0.7 * UP, axis=1)
    assert 2 < radii.min() <= radii.max() < 3


def test_path_begins_where_the_first_camera_is():
    views = cameras()
    first = CameraPath("orbit", frames=8, focus=tuple(FOCUS), up=tuple(UP)).through(views)[0]
    assert abs(angles_of(first)[0] - angles_of(views)[0]) < 1


@pytest.mark.parametrize("kind", ["auto", "orbit", "arc"])
def test_an_orbit_is_no_wider_than_the_cameras(kind):
    """Photographs of a wall: no camera is behind it."""
    views = on_an_arc(94)
    frames, _ = CameraPath(kind, frames=60).through(views)
    angles = angles_of(frames)
    assert 80 < np.ptp(angles) < 95
    assert abs(angles[-1] - angles[0]) < 5  # a loop
    assert all(is_level(frame) for frame in frames)


@pytest.mark.parametrize(("degrees", "expected"), [(30, 30), (180, 180), (360, 354)])
def test_the_width_of_an_arc(degrees, expected):
    frames, _ = CameraPath("auto", frames=60, arc=degrees).through(on_an_arc(94))
    assert np.ptp(np.unwrap(angles_of(frames), period=360)) == pytest.approx(expected, abs=2)


def test_the_kind_of_a_capture():
    def kind(views):
        return Capture(views, focus_point(views), UP).kind

    assert (kind(cameras()), kind(on_an_arc(94)), kind(walk())) == ("orbit", "arc", "walk")


def test_spiral_stays_among_cameras_that_face_one_way():
    rng = np.random.default_rng(1)
    template = ring_of_views(1)[0]
    spots = rng.uniform(-1, 1, (30, 3)) * [1, 0.5, 0.1]
    views = [dataclasses.replace(template, w2c=look_at(spot, np.array([0, 0, 6.0]), -np.eye(3)[1])) for spot in spots]
    frames, _ = CameraPath("spiral", frames=60).through(views)
    centers = np.array([frame.center for frame in frames])
    assert (np.abs(centers - spots.mean(axis=0)).max(axis=0) < [1.1, 0.6, 0.2]).all()
    assert (np.ptp(centers, axis=0) > [1.2, 0.6, 0.1]).all()
    assert all(frame.w2c[2, 2] > 0.9 for frame in frames)


def test_number_of_frames_from_seconds_and_fps():
    frames, fps = CameraPath("orbit", seconds=1.5, fps=20).through(ring_of_views())
    assert (len(frames), fps) == (30, 20)


@pytest.mark.parametrize("kind", [*KINDS])
def test_a_single_camera_makes_finite_paths(kind):
    for frame in CameraPath(kind, frames=3).through(ring_of_views(1))[0]:
        assert np.isfinite(frame.w2c).all()


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "circle"},
        {"kind": "orbit", "frames": 3, "seconds": 1},
        {"kind": "a.json", "frames": 3},
        {"kind": "a.json", "focus": (0, 0, 0)},
        {"kind": "a.json", "arc": 90.0},
        {"kind": "walk", "arc": 90.0},
    ],
)
def test_paths_that_make_no_sense(options):
    with pytest.raises(UsageError):
        CameraPath(**options)


def test_up_without_a_length_is_refused():
    with pytest.raises(UsageError, match="--up"):
        CameraPath("orbit", up=(0, 0, 0)).through(ring_of_views())
