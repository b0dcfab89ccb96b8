"""What cameras look at, the paths about it, and paths from files."""

import dataclasses
import json

import numpy as np
import pytest

from splat_cli.errors import FormatError, UsageError
from splat_cli.scene.cameras_json import write_cameras
from splat_cli.scene.trajectories.camera_path import CameraPath
from splat_cli.scene.trajectories.focus import focus_point, up_direction
from splat_cli.scene.trajectories.orbits import levelled, looking
from tests.views import ring_of_views

FOCUS, UP = np.array([1.0, -2.0, 0.5]), np.array([0.0, -0.6, 0.8])


def cameras(count=30, seed=0):
    """Cameras all about FOCUS, at distances of 2 to 3, looking nearly at it, upright about UP."""
    rng = np.random.default_rng(seed)
    template = ring_of_views(1)[0]
    east = np.array([1.0, 0, 0])
    views = []
    for angle in rng.uniform(0, 2 * np.pi, count):
        around = np.cos(angle) * east + np.sin(angle) * np.cross(UP, east)
        position = FOCUS + rng.uniform(2, 3) * around + 0.7 * UP
        views.append(dataclasses.replace(template, w2c=looking(position, FOCUS + rng.normal(0, 0.02, 3), UP)))
    return views


def axes_meet(view, point):
    """Whether the view looks at the point."""
    ahead = view.w2c[:3, :3] @ (point - view.center)
    return np.linalg.norm(ahead[:2]) < 1e-9 * ahead[2]


def test_focus_is_where_the_axes_nearly_meet():
    views = cameras()
    assert np.linalg.norm(focus_point(views) - FOCUS) < 0.02
    np.testing.assert_allclose(focus_point(ring_of_views()), 0, atol=1e-12)


def test_focus_has_the_least_sum_of_squared_distances():
    views = cameras(8)

    def cost(point):
        rays = [(view.center, view.w2c[2, :3]) for view in views]
        return sum(np.linalg.norm(np.cross(point - center, axis)) ** 2 for center, axis in rays)

    best = focus_point(views)
    for step in 1e-3 * np.concatenate([np.eye(3), -np.eye(3)]):
        assert cost(best + step) > cost(best)


def test_focus_of_parallel_axes_is_ahead():
    view = ring_of_views(1)[0]
    beside = dataclasses.replace(view, w2c=looking(view.center + [0, 0, 1], [0, 0, 1], -np.eye(3)[1]))
    for views in ([view], [view, beside]):
        ahead = [one.w2c[:3] @ [*focus_point(views), 1] for one in views]
        assert min(point[2] for point in ahead) > 0.1


def test_up_is_the_mean_of_the_cameras():
    assert up_direction(cameras(200)) @ UP > 0.999


@pytest.mark.parametrize("kind", ["orbit", "ellipse"])
def test_circling_paths_look_at_the_focus_upright_and_close(kind):
    views = cameras()
    path = CameraPath(kind, frames=40, focus=tuple(FOCUS), up=(0, -3, 4))
    frames, fps = path.through(views)
    assert (len(frames), fps) == (40, 30)
    offsets = np.array([frame.center - FOCUS for frame in frames])
    np.testing.assert_allclose(offsets @ UP, 0.7, atol=1e-9)
    assert all(axes_meet(frame, FOCUS) for frame in frames)
    assert all(abs(frame.w2c[0, :3] @ UP) < 1e-9 for frame in frames)
    assert all(frame.w2c[1, :3] @ UP < 0 for frame in frames)
    steps = np.linalg.norm(np.diff(offsets, axis=0, append=offsets[:1]), axis=1)  # the last leads back to the first
    assert steps.max() < 1.02 * steps.min()
    radii = np.linalg.norm(offsets - 0.7 * UP, axis=1)
    assert 2 < radii.min() <= radii.max() < 3
    assert kind == "ellipse" or np.ptp(radii) < 1e-9


def test_path_begins_where_the_first_camera_is():
    views = cameras()
    for kind in ("orbit", "ellipse"):
        first = CameraPath(kind, frames=8, focus=tuple(FOCUS), up=tuple(UP)).through(views)[0][0]
        across = [v - UP * (v @ UP) for v in (first.center - FOCUS, views[0].center - FOCUS)]
        assert across[0] @ across[1] > 0.99 * np.linalg.norm(across[0]) * np.linalg.norm(across[1])


def test_spiral_stays_among_cameras_that_face_one_way():
    rng = np.random.default_rng(1)
    template = ring_of_views(1)[0]
    spots = rng.uniform(-1, 1, (30, 3)) * [1, 0.5, 0.1]
    views = [dataclasses.replace(template, w2c=looking(spot, np.array([0, 0, 6.0]), -np.eye(3)[1])) for spot in spots]
    frames, _ = CameraPath("spiral", frames=60).through(views)
    centers = np.array([frame.center for frame in frames])
    assert (np.abs(centers - spots.mean(axis=0)).max(axis=0) < [1.1, 0.6, 0.2]).all()
    assert (np.ptp(centers, axis=0) > [1.2, 0.6, 0.1]).all()
    assert all(frame.w2c[2, 2] > 0.9 for frame in frames)


def test_seconds_and_frames_a_second_make_frames():
    frames, fps = CameraPath("orbit", seconds=1.5, fps=20).through(ring_of_views())
    assert (len(frames), fps) == (30, 20)


@pytest.mark.parametrize("kind", ["orbit", "ellipse", "spiral", "interpolate"])
def test_a_single_camera_makes_finite_paths(kind):
    for frame in CameraPath(kind, frames=3).through(ring_of_views(1))[0]:
        assert np.isfinite(frame.w2c).all()


def test_levelled_view_keeps_its_place_and_heading():
    view = cameras(1)[0]
    level = levelled(view, UP)
    np.testing.assert_allclose(level.center, view.center)
    assert abs(level.w2c[2, :3] @ UP) < 1e-12
    assert level.w2c[2, :3] @ view.w2c[2, :3] > 0.9
    down = dataclasses.replace(view, w2c=looking(view.center, view.center - UP, UP))
    assert abs(levelled(down, UP).w2c[2, :3] @ UP) < 1e-9


def nerfstudio_path(tmp_path, **changes):
    views = ring_of_views(2)
    frames = [
        {"camera_to_world": (np.linalg.inv(view.w2c) @ np.diag([1, -1, -1, 1])).ravel().tolist(), "fov": 60}
        for view in views
    ]
    content = {"camera_path": frames, "render_width": 64, "render_height": 48, "fps": 24.0} | changes
    (tmp_path / "path.json").write_text(json.dumps(content))
    return CameraPath(str(tmp_path / "path.json")), views


def test_path_of_nerfstudio(tmp_path):
    path, views = nerfstudio_path(tmp_path)
    frames, fps = path.through([])
    assert fps == 24
    for frame, view in zip(frames, views, strict=True):
        np.testing.assert_allclose(frame.w2c, view.w2c, atol=1e-12)
        assert (frame.width, frame.height) == (64, 48)
        assert frame.fy == frame.fx == pytest.approx(24 / np.tan(np.radians(30)))


def test_path_of_cameras_json(tmp_path):
    write_cameras(tmp_path / "a.json", ring_of_views(3))
    frames, fps = CameraPath(str(tmp_path / "a.json"), fps=12).through([])
    assert ([frame.name for frame in frames], fps) == (["a_00.jpg", "a_01.jpg", "a_02.jpg"], 12)


@pytest.mark.parametrize(
    "changes",
    [
        {"camera_path": []},
        {"camera_path": [{"fov": 50}]},
        {"camera_path": [{"fov": 50, "camera_to_world": [0] * 16}]},
        {"camera_path": [{"fov": 0, "camera_to_world": np.eye(4).ravel().tolist()}]},
        {"render_width": 0},
        {"render_height": None},
        {"fps": -1},
    ],
)
def test_broken_path_files_are_refused(tmp_path, changes):
    path, _ = nerfstudio_path(tmp_path, **changes)
    with pytest.raises(FormatError, match=r"path\.json"):
        path.through([])


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "circle"},
        {"kind": "orbit", "frames": 3, "seconds": 1},
        {"kind": "a.json", "frames": 3},
        {"kind": "a.json", "focus": (0, 0, 0)},
    ],
)
def test_paths_that_make_no_sense(options):
    with pytest.raises(UsageError):
        CameraPath(**options)


def test_up_without_a_length_is_refused():
    with pytest.raises(UsageError, match="--up"):
        CameraPath("orbit", up=(0, 0, 0)).through(ring_of_views())
