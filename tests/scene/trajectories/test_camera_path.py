"""Camera paths: what cameras look at, orbits and walks, paths from files."""

import dataclasses
import json
from itertools import pairwise

import numpy as np
import pytest

from splat_cli.errors import FormatError, UsageError
from splat_cli.scene.cameras_json import write_cameras
from splat_cli.scene.trajectories.camera_path import KINDS, CameraPath
from splat_cli.scene.trajectories.capture import Capture
from splat_cli.scene.trajectories.clearance import Obstacles
from splat_cli.scene.trajectories.focus import focus_point, up_direction
from splat_cli.scene.trajectories.looking import levelled, looking
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


def test_stray_cameras_hardly_move_the_focus():
    """A block of photographs whose poses are wrong, as in one of the scenes of Mip-NeRF 360."""
    views = cameras(40)
    stray = [moved(view, [4.0, 1.0, -2.0]) for view in cameras(8, seed=1)]
    assert np.linalg.norm(focus_point([*views, *stray]) - FOCUS) < 0.05


def moved(view, by):
    return dataclasses.replace(view, w2c=view.w2c @ np.block([[np.eye(3), -np.array(by)[:, None]], [0, 0, 0, 1]]))


def test_focus_of_parallel_axes_is_ahead():
    view = ring_of_views(1)[0]
    beside = dataclasses.replace(view, w2c=looking(view.center + [0, 0, 1], [0, 0, 1], -np.eye(3)[1]))
    for views in ([view], [view, beside]):
        ahead = [one.w2c[:3] @ [*focus_point(views), 1] for one in views]
        assert min(point[2] for point in ahead) > 0.1


def test_up_is_level_for_cameras_that_all_look_down_from_one_side():
    """The mean of their up directions is tilted by 15 degrees."""
    views = on_an_arc(120, height=1.5)
    mean = -np.mean([view.w2c[1, :3] for view in views], axis=0)
    assert mean @ UP / np.linalg.norm(mean) < np.cos(np.radians(10))
    assert up_direction(views) @ UP > np.cos(np.radians(0.3))


def test_rolled_cameras_hardly_tilt_up():
    views = on_an_arc(200, count=40, height=0.5)
    assert up_direction([*(rolled(view, 0.5) for view in views[:6]), *views[6:]]) @ UP > np.cos(np.radians(1))


def rolled(view, angle):
    roll = np.eye(4)
    roll[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    return dataclasses.replace(view, w2c=roll @ view.w2c)


def test_up_tilts_rolled_cameras_least():
    """Few cameras, all rolled: the fit converges slowly."""
    random = np.random.default_rng(22)
    angles = np.radians(random.normal(0, 12, 20))
    views = [rolled(view, angle) for view, angle in zip(on_an_arc(120, count=20, height=0.3), angles, strict=True)]
    right = np.array([view.w2c[0, :3] for view in views])
    up = up_direction(views)
    others = up + np.radians(2) * random.normal(size=(2000, 3))
    others /= np.linalg.norm(others, axis=1, keepdims=True)
    assert np.abs(right @ up).sum() <= 1.005 * np.abs(right @ others.T).sum(axis=0).min()


def test_the_ground_says_what_parallel_axes_leave_open():
    """All look one way and down; a wall in front of them is no ground, nor is a slope along which they are rolled."""
    down = 0.5 * np.cross(UP, [1.0, 0, 0]) - 0.2 * UP
    template = ring_of_views(1)[0]
    places = [np.array([x, 0, 0]) for x in np.linspace(-1, 1, 9)]
    views = [dataclasses.replace(template, w2c=looking(place, place + down, UP)) for place in places]
    random = np.random.default_rng(0)
    flat = random.uniform(-3, 3, (4000, 2))
    ground = flat[:, :1] * np.array([1.0, 0, 0]) + flat[:, 1:] * np.cross(UP, [1.0, 0, 0]) - 2 * UP
    slope = ground + 0.3 * flat[:, :1] * UP
    wall = flat[:, :1] * np.array([1.0, 0, 0]) + flat[:, 1:] * UP
    assert up_direction(views, ground) @ UP > np.cos(np.radians(1))
    for other in (wall, slope, ground[:0]):
        np.testing.assert_allclose(up_direction(views, other), up_direction(views), atol=1e-6)


def on_an_arc(degrees, count=30, height=0.7, radius=2.5):
    """Cameras on an arc about FOCUS that look at it, upright."""
    template, views = ring_of_views(1)[0], []
    for angle in np.radians(np.linspace(-degrees / 2, degrees / 2, count)):
        around = np.cos(angle) * np.array([1.0, 0, 0]) + np.sin(angle) * np.cross(UP, [1.0, 0, 0])
        position = FOCUS + radius * around + height * UP
        views.append(dataclasses.replace(template, w2c=looking(position, FOCUS, UP)))
    return views


def angles_of(frames):
    """Degrees about the vertical through FOCUS."""
    offsets = np.array([frame.center for frame in frames]) - FOCUS
    return np.degrees(np.arctan2(offsets @ np.cross(UP, [1.0, 0, 0]), offsets[:, 0]))


def is_level(frame):
    return abs(frame.w2c[0, :3] @ UP) < 0.003 and frame.w2c[1, :3] @ UP < 0


def test_an_orbit_looks_at_the_focus_upright_and_as_far_away_as_the_cameras():
    views = cameras()
    frames, fps = CameraPath("orbit", frames=40, focus=tuple(FOCUS), up=(0, -3, 4)).through(views)
    assert (len(frames), fps) == (40, 30)
    offsets = np.array([frame.center - FOCUS for frame in frames])
    np.testing.assert_allclose(offsets @ UP, 0.7, atol=1e-9)
    assert all(axes_meet(frame, FOCUS) and is_level(frame) for frame in frames)
    steps = np.linalg.norm(np.diff(offsets, axis=0, append=offsets[:1]), axis=1)  # the last leads back to the first
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


def test_paths_keep_away_from_dense_places():
    """Cameras go around a pillar in their ring: near it they stand farther out."""
    views = []
    for view in on_an_arc(340, count=80):
        angle = angles_of([view])[0]
        out = 0.9 * np.exp(-((angle / 15) ** 2)) * (view.center - 0.7 * UP - FOCUS)
        views.append(dataclasses.replace(view, w2c=looking(view.center + out, FOCUS, UP)))
    pillar = FOCUS + [3.0, 0, 0] + np.linspace(-1, 2, 60)[:, None] * UP
    obstacles = Obstacles(pillar, views)
    assert obstacles.clearance(CameraPath("orbit").through(views)[0]) < obstacles.required
    assert obstacles.clearance(CameraPath("orbit").through(views, pillar)[0]) >= obstacles.required


def test_a_curve_bends_smoothly_away_from_an_obstacle():
    """A wall of 5 x 5 points just beside a line; the ends of the line stay where they are."""
    line = np.linspace([-4.0, 0, 0], [4.0, 0, 0], 900)
    wall = np.array([[x, 0.1, z] for x in np.linspace(-0.5, 0.5, 5) for z in np.linspace(-0.5, 0.5, 5)])
    camera = moved(ring_of_views(1)[0], [-3.0, 1.1, 0])
    obstacles = Obstacles(wall, [camera])
    assert obstacles.distances(line).min() < 0.2 < obstacles.required == pytest.approx(0.5)
    bent = obstacles.avoid(line)
    assert obstacles.distances(bent).min() >= obstacles.required
    np.testing.assert_allclose(bent[[0, -1]], line[[0, -1]], atol=0.01)
    assert np.abs(np.diff(bent[::20], axis=0)[:, 1]).max() < 0.09  # of steps of 0.18
    assert np.array_equal(Obstacles(wall[:0], [camera]).avoid(line), line)


def test_a_loop_that_is_bent_stays_closed():
    angles = np.linspace(0, 2 * np.pi, 800)
    loop = np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1)
    obstacles = Obstacles(np.array([[1.05, 0, 0]]), [moved(ring_of_views(1, radius=1.0)[0], [0.4, 0, 0])])
    bent = obstacles.avoid(loop)
    assert obstacles.distances(bent).min() >= obstacles.required > obstacles.distances(loop).min()
    np.testing.assert_allclose(bent[0], bent[-1], atol=1e-12)
    steps = np.diff(np.concatenate([bent, bent[1:3]]), 2, axis=0)
    assert np.abs(steps).max() < 5e-3


def test_an_open_line_far_from_the_origin_is_no_loop():
    """In coordinates of a map, the distance of its ends is small relative to their size: 40 m of 5,000 km."""
    line = np.linspace([0, 0, 0], [0, 40, 0], 200) + [0, 5e6, 0]
    obstacles = Obstacles(np.array([[1, 5e6, 0]]), ring_of_views(3))
    obstacles.required = 2.0
    bent = obstacles.avoid(line)
    assert np.linalg.norm(bent[0] - line[0]) > 0.5
    np.testing.assert_allclose(bent[-1], line[-1], atol=0.1)


def test_a_path_keeps_its_pictures_free():
    """A screen of points that no camera has before it, but the smoothest orbit: cameras stand in front of it."""
    views = []
    for view in on_an_arc(340, count=80):
        angle = angles_of([view])[0]
        inwards = -0.35 * np.exp(-((angle / 12) ** 2)) * (view.center - 0.7 * UP - FOCUS)
        views.append(dataclasses.replace(view, w2c=looking(view.center + inwards, FOCUS, UP)))
    screen = [FOCUS + [2.05, 0, 0] + y * np.cross(UP, [1.0, 0, 0]) + z * UP
              for y in np.linspace(-0.05, 0.05, 5) for z in np.linspace(0.3, 0.9, 12)]  # fmt: skip
    object_in_focus = FOCUS + np.random.default_rng(0).normal(0, 0.2, (50, 3))
    obstacles = Obstacles(np.concatenate([screen, object_in_focus]), views)
    plain = CameraPath("orbit").through(views)[0]
    kept = CameraPath("orbit").through(views, np.concatenate([screen, object_in_focus]))[0]
    assert min(obstacles.depth(frame) for frame in plain) < obstacles.required_depth
    assert min(obstacles.depth(frame) for frame in kept) >= obstacles.required_depth


def walk(count=60):
    """Cameras along a corridor with a bend, that look ahead, a little unsteady."""
    random = np.random.default_rng(2)
    east, north = np.array([1.0, 0, 0]), np.cross(UP, [1.0, 0, 0])
    views = []
    for i in range(count):
        turn = np.pi / 2 * np.clip((i - 20) / 20, 0, 1)
        place = min(i, 30) * 0.3 * east + max(i - 30, 0) * 0.3 * north
        ahead = np.cos(turn) * east + np.sin(turn) * north + random.normal(0, 0.05, 3)
        views.append(dataclasses.replace(ring_of_views(1)[0], w2c=looking(place, place + ahead, UP)))
    return views


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_walk_follows_the_cameras_smoothly(shuffled):
    views = walk()
    given = [views[i] for i in np.random.default_rng(0).permutation(len(views))] if shuffled else views
    frames, _ = CameraPath("auto", up=tuple(UP)).through(given)
    assert all(is_level(frame) for frame in frames)
    centers, cameras_at = (np.array([view.center for view in some]) for some in (frames, views))
    assert np.linalg.norm(centers[:, None] - cameras_at, axis=2).min(axis=1).max() < 0.8
    assert {tuple(ends) for ends in np.linalg.norm(centers[[0, -1], None] - cameras_at[[0, -1]], axis=2) < 1} <= {
        (True, False), (False, True)
    }  # fmt: skip
    steps = np.linalg.norm(np.diff(centers, axis=0), axis=1)
    assert steps.max() < 5 * np.median(steps)
    turns = [np.degrees(np.arccos(min(a.w2c[2, :3] @ b.w2c[2, :3], 1))) for a, b in pairwise(frames)]
    assert max(turns) < 3


def test_a_walk_turns_slowly_where_photographs_turn_abruptly():
    """A person stands still and photographs a room in all directions, ceiling and floor too, then walks on."""
    random = np.random.default_rng(3)
    east, north = np.array([1.0, 0, 0]), np.cross(UP, [1.0, 0, 0])
    views = []
    for i in range(48):
        angle, rise = 2.4 * (i % 8), 1.3 * random.uniform(-1, 1)
        ahead = np.cos(rise) * (np.cos(angle) * east + np.sin(angle) * north) + np.sin(rise) * UP
        place = 1.5 * (i // 8) * east + 0.05 * random.normal(size=3)
        views.append(dataclasses.replace(ring_of_views(1)[0], w2c=looking(place, place + ahead, UP)))
    frames, _ = CameraPath("walk", up=tuple(UP)).through(views)
    rotations = [a.w2c[:3, :3] @ b.w2c[:3, :3].T for a, b in pairwise(frames)]
    turns = np.degrees([np.arccos(np.clip((np.trace(turn) - 1) / 2, -1, 1)) for turn in rotations])
    assert turns.max() < 6
    assert max(abs(frame.w2c[2, :3] @ UP) for frame in frames) < np.sin(np.radians(45))
    assert 120 <= len(frames) <= 600


def test_a_walk_around_an_object_keeps_it_in_the_picture():
    """Photographs of many people: unordered, near and far; means of directions would miss the object."""
    random = np.random.default_rng(1)
    views = []
    for view in cameras(60):
        place = FOCUS + random.uniform(0.6, 2.5) * (view.center - FOCUS)
        views.append(dataclasses.replace(view, w2c=looking(place, FOCUS, UP)))
    for frame in CameraPath("walk", up=tuple(UP), focus=tuple(FOCUS)).through(views)[0]:
        x, y, z = frame.w2c[:3] @ [*FOCUS, 1]
        assert np.hypot(x, y) < 0.1 * z


def test_the_kind_of_a_capture():
    def kind(views):
        return Capture(views, focus_point(views), UP).kind

    assert (kind(cameras()), kind(on_an_arc(94)), kind(walk())) == ("orbit", "arc", "walk")


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


@pytest.mark.parametrize("kind", [*KINDS])
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
