"""Walks: along the cameras, smooth, turning slowly."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest

from splat_cli.scene.trajectories.camera_path import CameraPath
from splat_cli.scene.trajectories.focus import look_at
from tests.scene.trajectories.captures import (
    FOCUS,
    UP,
    cameras,
    is_level,
    walk,
)
from tests.views import ring_of_views


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_walk_follows_the_cameras_smoothly(shuffled):
    views = walk()
    given = [views[i] for i in np.random.default_rng(0).permutation(len(views))] if shuffled else views
    frames, _ = CameraPath("auto", up=tuple(UP)).through(given)
    assert all(is_level(frame) for frame in frames)
    centers, cameras_at = (np.array([view.center for view in some]) for some in (frames, views))
    assert np.linalg.norm(centers[:, None] - cameras_at, axis=2).min(axis=1).max() < 0.8
    assert {tuple(ends) for ends in np.linalg.norm(centers[[0, -1], None] - cameras_at[[0, -1]], axis=2) < 1} <= {
        (True, False),
        (False, True),
    }
    steps = np.linalg.norm(np.diff(centers, axis=0), axis=1)
    assert steps.max() < 5 * np.median(steps)
    turns = [np.degrees(np.arccos(min(a.w2c[2, :3] @ b.w2c[2, :3], 1))) for a, b in pairwise(frames)]
    assert max(turns) < 3


def test_a_walk_turns_slowly_where_photographs_turn_abruptly():
    """A person stands still and photographs a room in all directions, with ceiling and floor, then walks on."""
    rng = np.random.default_rng(3)
    east, north = np.array([1.0, 0, 0]), np.cross(UP, [1.0, 0, 0])
    views = []
    for i in range(48):
        angle, rise = 2.4 * (i % 8), 1.3 * rng.uniform(-1, 1)
        ahead = np.cos(rise) * (np.cos(angle) * east + np.sin(angle) * north) + np.sin(rise) * UP
        place = 1.5 * (i // 8) * east + 0.05 * rng.normal(size=3)
        views.append(dataclasses.replace(ring_of_views(1)[0], w2c=look_at(place, place + ahead, UP)))
    frames, _ = CameraPath("walk", up=tuple(UP)).through(views)
    rotations = [a.w2c[:3, :3] @ b.w2c[:3, :3].T for a, b in pairwise(frames)]
    turns = np.degrees([np.arccos(np.clip((np.trace(turn) - 1) / 2, -1, 1)) for turn in rotations])
    assert turns.max() < 6
    assert max(abs(frame.w2c[2, :3] @ UP) for frame in frames) < np.sin(np.radians(45))
    assert 120 <= len(frames) <= 600


def test_a_walk_around_an_object_keeps_it_in_the_picture():
    """Photographs of many people: unordered, near and far; means of directions would miss the object."""
    rng = np.random.default_rng(1)
    views = []
    for view in cameras(60):
        place = FOCUS + rng.uniform(0.6, 2.5) * (view.center - FOCUS)
        views.append(dataclasses.replace(view, w2c=look_at(place, FOCUS, UP)))
    for frame in CameraPath("walk", up=tuple(UP), focus=tuple(FOCUS)).through(views)[0]:
        x, y, z = frame.w2c[:3] @ [*FOCUS, 1]
        assert np.hypot(x, y) < 0.1 * z
