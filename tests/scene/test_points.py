"""Which points splats start from."""

import numpy as np
import pytest

from splat_cli.errors import SceneError, UsageError
from splat_cli.scene import SceneOptions, read_scene
from splat_cli.scene.crop import Box, Sphere, parse_crop
from splat_cli.scene.dataset import Points
from splat_cli.scene.points import kept_points, random_points
from tests.scene.models import small_model, write_scene
from tests.views import ring_of_views

POSITIONS = np.array([[0, 0, 0], [1, 0, 0], [0, 0, 0], [np.nan, 0, 0], [3, 3, 3], [-0.0, 0, 0]])


def points(**more):
    return Points(POSITIONS, np.arange(18, dtype=np.uint8).reshape(6, 3), **more)


def test_duplicates_and_what_is_not_finite():
    kept, colors, dropped = kept_points(points(), SceneOptions())
    np.testing.assert_array_equal(kept, [[0, 0, 0], [1, 0, 0], [3, 3, 3]])
    np.testing.assert_array_equal(colors[:, 0], [0, 3, 12])
    assert dropped == {"not finite": 1, "duplicates": 2}


@pytest.mark.parametrize(
    ("options", "left", "reason"),
    [
        ({"min_track_length": 3}, 1, "in fewer than 3 photographs"),
        ({"max_point_error": 1.0}, 2, "off by more than 1 pixels"),
        ({"crop": Box((-1, -1, -1), (2, 2, 2))}, 2, "outside the crop"),
        ({"crop": Sphere((3, 3, 3), 1)}, 1, "outside the crop"),
    ],
)
def test_choices(options, left, reason):
    errors = np.array([0.5, 1.5, 0, 0, 1.0, 0])
    kept, _, dropped = kept_points(
        points(errors=errors, track_lengths=np.array([2, 2, 9, 9, 3, 9])), SceneOptions(**options)
    )
    assert len(kept) == left
    assert reason in dropped


def test_choice_that_leaves_none():
    with pytest.raises(SceneError, match="none of the 6 points is left .*3 outside the crop"):
        kept_points(points(), SceneOptions(crop=Sphere((9, 9, 9), 1)))


def test_points_of_a_model_whose_tracks_are_unknown_are_kept(tmp_path):
    """A model written without tracks has only zeros there."""
    scene = read_scene(write_scene(tmp_path, small_model()), SceneOptions(min_track_length=3))
    assert len(scene.points) == 5


def test_crop_of_text():
    assert parse_crop("1, 2,3,4.5") == Sphere((1, 2, 3), 4.5)
    assert parse_crop("0,0,0,1,2,3") == Box((0, 0, 0), (1, 2, 3))
    for text in ("", "1,2,3", "1,2,3,0", "1,2,3,nan", "1,0,0,1,2,3", "a,b,c,d", "1,2,3,4,5,6,7"):
        with pytest.raises(UsageError, match="expected x,y,z,radius"):
            parse_crop(text)


def test_random_points_lie_where_cameras_look():
    positions, colors = random_points(ring_of_views(12, radius=3.0), 1000, np.random.default_rng(0))
    assert positions.dtype == np.float32
    assert colors.dtype == np.uint8
    distances = np.linalg.norm(positions, axis=1)
    assert distances.max() <= 8 * 1.5 + 1e-3
    near = np.abs(positions).max(axis=1) <= 1.5
    assert 500 <= near.sum() < 700
    assert np.abs(positions[near].mean(axis=0)).max() < 0.15


@pytest.mark.parametrize("num_views", [1, 2])
def test_random_points_around_few_cameras(num_views):
    views = [ring_of_views(1)[0]] * num_views
    positions, _ = random_points(views, 100, np.random.default_rng(0))
    assert np.isfinite(positions).all()
