"""Initial splats, by --init."""

import dataclasses
import io
from pathlib import Path

import numpy as np
import pytest

from splat_cli.config import TrainConfig
from splat_cli.device import open_backend
from splat_cli.errors import SceneError
from splat_cli.gaussians.arrays import zero_splats
from splat_cli.gaussians.ply import write_ply
from splat_cli.run.plan import resolve_plan
from splat_cli.run.setup import initial_state
from splat_cli.run.setup.initial_state import find_initial_state, starting_points
from splat_cli.scene.view import Scene
from splat_cli.terminal.console import Display
from splat_cli.train.initial_splats import initial_splats
from tests.textured_ball import photographs_of_ball, views_of_ball
from tests.views import ring_of_views

POINTS = np.array([[0, 0, 0], [1, 0, 0]], np.float32)


@pytest.fixture
def start(backend):
    taken = photographs_of_ball(views_of_ball(16))

    def start(points=POINTS, taken=taken, **settings):
        said = []
        display = Display()
        display.say = display.warn = said.append
        scene = Scene(Path(), taken.views, points, np.full((len(points), 3), 7, np.uint8))
        found, colors = starting_points(scene, taken, TrainConfig(init_points=1500, **settings), backend, display)
        assert colors.shape == found.shape
        return found, " ".join(said)

    return start


def test_points_of_the_scene(start):
    points, said = start(init="points")
    np.testing.assert_array_equal(points, POINTS)
    assert not said


def test_splats_of_a_file_start_with_quaternions_of_length_1(backend, tmp_path):
    """A step of Adam turns a long quaternion less: splats of another program would be trained at another rate."""
    path = tmp_path / "splats.ply"
    write_ply(
        path, dataclasses.replace(zero_splats(3, 0), quats=np.float32([[0, 3e-3, 4e-3, 0], [0] * 4, [0, 0, 0, -9]]))
    )
    config = resolve_plan(TrainConfig(init_from=str(path)), ring_of_views(4)).config
    started = initial_splats(backend, config, POINTS[:0], np.zeros((0, 3), np.uint8), np.random.default_rng())[0]
    np.testing.assert_allclose(started.quats, [[0, 0.6, 0.8, 0], [1, 0, 0, 0], [0, 0, 0, -1]], rtol=1e-6)


def test_points_found_in_photographs(start):
    points, said = start(POINTS[:0])
    assert f"Initial points: {len(points):,} of the plane sweep" in said
    assert np.median(np.abs(np.linalg.norm(points, axis=1) - 1)) < 0.05
    np.testing.assert_array_equal(start(init="sweep")[0], points)


def test_points_of_the_scene_and_of_the_sweep(start):
    points, said = start()
    np.testing.assert_array_equal(points[: len(POINTS)], POINTS)
    np.testing.assert_array_equal(points[len(POINTS) :], start(init="sweep")[0])
    assert f"{len(POINTS)} of the dataset, {len(points) - len(POINTS):,} of the plane sweep" in said


def test_sky_points_are_far_behind_swept_points(start):
    """All photographs show grey behind the ball, in the same directions."""
    points, said = start(background="random", sky=True)
    nearer = start(background="random")[0]
    np.testing.assert_array_equal(points[: len(nearer)], nearer)
    far = points[len(nearer) :]
    assert f", {len(far):,} of the sky" in said
    assert len(far) > 100
    assert np.linalg.norm(far, axis=1).min() > 10 * np.median(np.linalg.norm(nearer, axis=1))
    np.testing.assert_array_equal(start(background="black", sky=True)[0], nearer)


def test_plane_sweep_without_memory_gives_random_points(start, monkeypatch):
    def plane_sweep_points(*args):
        raise MemoryError

    monkeypatch.setattr(initial_state, "plane_sweep_points", plane_sweep_points)
    points, said = start()
    np.testing.assert_array_equal(points, POINTS)
    assert "memory" in said
    assert len(start(POINTS[:0])[0]) == 1500


SWEPT = np.float32([[i, 0, 0] for i in range(250)])


@pytest.mark.parametrize(
    ("points", "crop", "expected"),
    [(POINTS[:0], None, SWEPT[::3]), (POINTS[:0], "60,0,0,59.5", SWEPT[1:120:2]), (POINTS, None, POINTS)],
)
def test_points_that_end_free_space(monkeypatch, points, crop, expected):
    """The scene's, or some of the plane sweep; not those of the sky."""
    taken, colors = photographs_of_ball(views_of_ball(3)), np.zeros((250, 3), np.uint8)
    monkeypatch.setattr(initial_state, "SURFACE_POINTS", 100)
    monkeypatch.setattr(initial_state, "_sweep", lambda *_: (taken, (SWEPT, colors)))
    monkeypatch.setattr(initial_state, "sky_points", lambda *_: (SWEPT + np.float32([0, 9, 0]), colors))
    scene = Scene(Path(), taken.views, points, colors[: len(points)])
    config = TrainConfig(background="random", sky=True, free_space=1.0, crop=crop, crop_start=crop is not None)
    found = find_initial_state(scene, taken, config, open_backend("cpu"), Display(io.StringIO()))
    assert found.num_points > len(expected)
    np.testing.assert_array_equal(found.surface, expected)


def test_random_points_do_not_end_free_space(backend):
    taken, display = photographs_of_ball(views_of_ball(16), texture=0.0), Display(io.StringIO())
    scene = Scene(Path(), taken.views, POINTS[:0], np.zeros((0, 3), np.uint8))
    config = TrainConfig(init="random", init_points=1500)
    assert find_initial_state(scene, taken, config, backend, display).surface is None
    penalty = dataclasses.replace(config, init="auto", free_space=0.1)
    with pytest.raises(SceneError, match="no points to find free space with: leave out --free-space"):
        find_initial_state(scene, taken, penalty, backend, display)


def test_progress_of_the_search(backend):
    """Progress is shown, because half a minute on a CPU would look like a hang."""
    taken, shown = photographs_of_ball(views_of_ball(16)), io.StringIO()
    scene = Scene(Path(), taken.views, POINTS, np.full((2, 3), 7, np.uint8))
    starting_points(scene, taken, TrainConfig(init_points=1500), backend, Display(shown, bar=True))
    assert "plane sweep" in shown.getvalue().split("Initial points")[0]


def test_random_points(start):
    points, said = start(init="random")
    assert len(points) == 1500
    assert not said


def test_random_points_if_photographs_share_nothing(start):
    points, said = start(POINTS[:0], taken=photographs_of_ball(views_of_ball(16), texture=0.0))
    assert len(points) == 1500
    assert "1,500 random points" in said


def test_crop(start):
    points, _ = start(init="random", crop="0,0,0,1", crop_start=True)
    assert 0 < len(points) < 1500
    assert np.linalg.norm(points, axis=1).max() <= 1
    with pytest.raises(SceneError, match="outside the crop"):
        start(init="random", crop="99,99,99,1", crop_start=True)
    assert len(start(init="random", crop="0,0,0,1")[0]) == 1500


def test_no_points(start):
    """The function that makes splats from points refuses them."""
    assert len(start(POINTS[:0], init="points")[0]) == 0
