"""Paths through cameras that face opposite ways: exactly opposite ones, and captures all around an object."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest

from splat_cli.scene.trajectories.camera_path import KINDS, CameraPath
from splat_cli.scene.trajectories.focus import focus_point, look_at
from tests.views import ring_of_views

EAST, UP = np.array([1.0, 0, 0]), np.array([0.0, -1.0, 0.0])


def facing(*poses):
    """Cameras with the given positions and directions."""
    template = ring_of_views(1)[0]
    poses = [(np.array(place, float), np.array(ahead, float)) for place, ahead in poses]
    return [dataclasses.replace(template, w2c=look_at(place, place + ahead, UP)) for place, ahead in poses]


def there_and_back():
    places = [(0, 0, z) for z in range(5)]
    return facing(*((place, (0, 0, 1)) for place in places), *((place, (0, 0, -1)) for place in places[::-1]))


OPPOSITE = {
    "facing each other": facing((-4 * EAST, EAST), (4 * EAST, -EAST)),
    "back to back": facing((-4 * EAST, -EAST), (4 * EAST, EAST)),
    "in one place": facing((0 * EAST, EAST), (0 * EAST, -EAST)),
    "up and down": facing((0 * EAST, UP), (EAST, -UP)),
    "there and back": there_and_back(),
}


@pytest.mark.parametrize("views", OPPOSITE.values(), ids=OPPOSITE)
def test_a_walk_turns_slowly_between_opposite_cameras(views):
    frames = CameraPath("walk").through(views)[0]
    turns = [np.degrees(np.arccos(np.clip(a.w2c[2, :3] @ b.w2c[2, :3], -1, 1))) for a, b in pairwise(frames)]
    assert max(turns) < 4
    assert sum(turns) < 200  # and only once


@pytest.mark.parametrize("views", OPPOSITE.values(), ids=OPPOSITE)
@pytest.mark.parametrize("kind", KINDS)
def test_paths_of_opposite_cameras_are_finite(views, kind):
    assert all(np.isfinite(frame.w2c).all() for frame in CameraPath(kind, frames=5).through(views)[0])


def test_focus_of_cameras_that_face_each_other_is_between_them():
    assert np.allclose(focus_point(OPPOSITE["facing each other"]), 0)


def test_a_spiral_stands_on_one_side_of_an_object():
    views = ring_of_views(24, radius=3.0)
    focus = focus_point(views)
    frames = CameraPath("spiral", frames=60).through(views)[0]
    distances = np.array([np.linalg.norm(frame.center - focus) for frame in frames])
    assert distances.min() > 0.7 * 3
    assert distances.max() < 1.2 * 3
    assert all(
        frame.w2c[2, :3] @ (focus - frame.center) > 0.9 * np.linalg.norm(focus - frame.center) for frame in frames
    )
