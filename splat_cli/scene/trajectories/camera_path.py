"""Camera paths: orbit, arc, spiral and others by name, or from a file. Frames keep what most photographs show."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from splat_cli.device import ceil_div
from splat_cli.errors import FormatError, UsageError, reason_of
from splat_cli.io import json_input
from splat_cli.scene.cameras_json import read_cameras, read_json
from splat_cli.scene.extent import scene_extent
from splat_cli.scene.lens import MAX_SIDE
from splat_cli.scene.quaternion import (
    is_rotation,
    nearest_rotation,
    quat_from_matrix,
    rotation_from_vector,
    world_to_camera,
)
from splat_cli.scene.trajectories.clearance import Obstacles
from splat_cli.scene.trajectories.focus import FULL_CIRCLE, Capture, focus_point, frame, look_at, up_direction
from splat_cli.scene.trajectories.walk import BANDWIDTHS as WALK_BANDWIDTHS
from splat_cli.scene.trajectories.walk import walk_path
from splat_cli.scene.view import View, evenly_spread

_AXES = np.diag([1.0, -1.0, -1.0, 1.0])
"""nerfstudio's cameras have y up and look along -z."""
BANDWIDTHS = (0.6, 0.3, 0.15, 0.08)
"""Bandwidths in radians of the average of an orbit's distance and height: the first is the smoothest path."""
REACHES = (1.0, 0.7, 0.5, 0.3, 0.1)
"""Scales of a spiral, tried in this order."""
_REACH = 90
"""Percentile of the cameras' distances that is the radius of a spiral, robust to outliers."""
_FACING_ONE_WAY = np.cos(np.radians(45))
_TURNS = 2
_ARC_STEPS = 2048
KINDS = ("auto", "orbit", "arc", "spiral", "walk", "interpolate")
DEFAULT_FPS = 30.0
_DEFAULT_FRAMES = 120


def read_path(path: Path, origin: np.ndarray | None = None) -> tuple[list[View], float | None]:
    """(view of each frame, frames per second if stated). Raises FormatError. origin: see `read_cameras`.

    nerfstudio: `camera_path` with `camera_to_world` (row-major) and `fov` (degrees, vertical), `render_width`,
    `render_height`, `fps`; coordinates are taken as those of the scene.
    """
    content = read_json(path)
    if isinstance(content, list):
        return read_cameras(path, origin), None
    try:
        width, height = (json_input.whole(content, key) for key in ("render_width", "render_height"))
        fps = json_input.number(content, "fps") if "fps" in content else None
        frames = list(content["camera_path"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise FormatError(
            f"{path}: expected a list of cameras, or camera_path, render_width and render_height "
            f"(wrong: {reason_of(error)})"
        ) from None
    if not (frames and 1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE and (fps is None or 0 < fps <= 1000)):
        raise FormatError(
            f"{path}: {len(frames)} cameras of {width}x{height} pixels at {fps} frames per second; expected 1 or more, "
            f"of 1 to {MAX_SIDE} pixels, at most 1000 per second"
        )
    if (kind := content.get("camera_type", "perspective")) != "perspective":
        raise FormatError(f"{path}: `camera_type` is {str(kind)[:40]!a}, expected perspective: export such a path")
    if content.get("crop"):
        raise FormatError(f"{path}: `crop` is not read here: remove it, and render splats of `splat export --crop`")
    return [_view(entry, number, width, height, f"{path}: camera {number}") for number, entry in enumerate(frames)], fps


def _view(entry: Any, number: int, width: int, height: int, where: str) -> View:
    try:
        pose, fov = json_input.numbers(entry, "camera_to_world", 4, 4), json_input.number(entry, "fov")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise FormatError(f"{where}: expected camera_to_world [16] and fov (wrong: {reason_of(error)})") from None
    is_pose = np.isfinite(pose).all() and is_rotation(pose[:3, :3]) and np.allclose(pose[3], (0, 0, 0, 1))
    if not (is_pose and 0 < fov < 180):
        raise FormatError(f"{where}: camera_to_world has to be a rotation and a position, fov between 0 and 180")
    focal = 0.5 * height / math.tan(0.5 * math.radians(fov))
    w2c = np.linalg.inv(pose @ _AXES)
    return View(f"{number:05d}", None, width, height, focal, focal, 0.5 * width, 0.5 * height, w2c)


def orbit_path(
    capture: Capture,
    num_frames: int,
    arc: float | None,
    avoid: Callable[[np.ndarray], np.ndarray],
    bandwidth: float,
) -> list[View]:
    """A circle around the focus if cameras surround it, otherwise an arc back and forth; a loop in both cases.

    Constant speed, with distance and height of the nearby cameras. arc: width, radians; None: as wide as the cameras'.
    avoid: moves positions [M, 3] away from obstacles.
    """
    middle, width = capture.covered()
    width = width if arc is None else min(arc, FULL_CIRCLE)
    is_circle = width >= FULL_CIRCLE
    low = middle if is_circle else middle - width / 2
    angles = low + np.linspace(0, width, _ARC_STEPS)
    points = avoid(capture.position(angles, bandwidth))
    travelled = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))])
    share = np.arange(num_frames) / num_frames
    at = travelled[-1] * (share if is_circle else (1 - np.cos(FULL_CIRCLE * share)) / 2)
    positions = np.stack([np.interp(at, travelled, column) for column in points.T], axis=1)
    return [frame(capture.template, i, p, capture.focus, capture.up) for i, p in enumerate(positions)]


def spiral_path(views: Sequence[View], num_frames: int, focus: np.ndarray, up: np.ndarray, size: float) -> list[View]:
    """Two turns in front of the scene. The radius contains nine tenths of the cameras that face one way.

    If cameras face several ways, takes the largest group of cameras within 45 degrees of one of them. As in
    LLFF (Mildenhall et al. 2019): oscillates in the image plane and, at half the frequency, in depth, looking at a
    point at the distance of the focus. size: scale of the path.
    """
    centers, directions = np.array([view.center for view in views]), np.array([view.w2c[2, :3] for view in views])
    is_alike = directions @ directions.T > _FACING_ONE_WAY
    chosen = is_alike[np.argmax(is_alike.sum(axis=1))]
    centers, forward = centers[chosen], directions[chosen].mean(axis=0)
    middle = centers.mean(axis=0)
    axes = look_at(middle, middle + forward, up)[:3, :3]
    reach = size * np.percentile(np.abs((centers - middle) @ axes.T), _REACH, axis=0)
    ahead = float(axes[2] @ (focus - middle))
    target = middle + axes[2] * (ahead if ahead > 0 else scene_extent(views))
    angles = np.arange(num_frames) * 2 * np.pi * _TURNS / num_frames
    sway = np.stack([np.cos(angles), np.sin(angles), np.sin(angles / 2)], axis=1) * reach
    return [frame(views[0], i, middle + offset @ axes, target, up) for i, offset in enumerate(sway)]


@dataclass(frozen=True)
class CameraPath:
    """Options of a path: one of KINDS or a JSON file; None: default.

    "auto" selects the kind by the cameras. arc: degrees. focus: point to look at and circle around. up: up direction,
    of any length. size: of the frames, pixels; a file of cameras has its own. origin: see `read_cameras`.
    """

    kind: str
    frames: int | None = None
    seconds: float | None = None
    fps: float | None = None
    arc: float | None = None
    focus: tuple[float, float, float] | None = None
    up: tuple[float, float, float] | None = None
    size: tuple[int, int] | None = None
    origin: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.frames is not None and self.seconds is not None:
            raise UsageError(
                "--frames and --seconds exclude each other: give one of them, and --fps for frames per second"
            )
        counted = self.frames is not None or self.seconds is not None
        if self.is_file and (counted or self.focus or self.arc):
            raise UsageError(f"{self.kind} defines its own frames: leave out --frames, --seconds, --focus and --arc")
        if not self.is_file and self.kind not in KINDS:
            raise UsageError(f"--path {self.kind}: expected {', '.join(KINDS)} or the name of a .json file")
        if self.arc is not None and self.kind not in ("auto", "orbit", "arc"):
            raise UsageError(f"--arc needs --path orbit: leave it out, or take that path, not {self.kind}")

    @property
    def name(self) -> str:
        """Name of the folder of its pictures."""
        return Path(self.kind).stem

    def through(self, views: Sequence[View], dense: np.ndarray | None = None) -> tuple[list[View], float]:
        """(cameras of the path, frames per second), from the cameras `views`. Raises FormatError.

        dense: obstacles [P, 3], which also determine the ground and the subject. The result is the smoothest path that
        keeps half the distance of the nearest camera (clearance.py), with the subject within every frame;
        "interpolate" passes through all cameras as they are.
        """
        if self.is_file:
            frames, said = read_path(Path(self.kind), self.origin)
            return frames, self.fps or said or DEFAULT_FPS
        fps = self.fps or DEFAULT_FPS
        dense = np.empty((0, 3)) if dense is None else dense
        up = up_of(views, self.up, dense)
        capture = Capture(views, focus_point(views) if self.focus is None else np.array(self.focus), up)
        kind = self._kind(capture)
        frames = self._frames(kind, capture, views, dense, fps)
        seen = dense[:0] if kind == "interpolate" else dense
        return framed(frames, views, seen, self.size), fps

    def _frames(self, kind: str, capture: Capture, views: Sequence[View], dense: np.ndarray, fps: float) -> list[View]:
        """The cameras of a path of this kind, with the lens and the size of the first view."""
        given = self.frames if self.seconds is None else max(1, round(self.seconds * fps))
        count = given or _DEFAULT_FRAMES
        if kind == "interpolate":
            return interpolate_path(views, count)
        obstacles = Obstacles(dense, views)
        if kind == "walk":
            focus = None if capture.kind == "walk" else capture.focus
            walk = partial(walk_path, views, given, capture.up, focus, obstacles.avoid)
            return obstacles.first_clear(walk, WALK_BANDWIDTHS)
        if kind == "spiral":
            return obstacles.first_clear(partial(spiral_path, views, count, capture.focus, capture.up), REACHES)
        arc = None if self.arc is None else float(np.radians(self.arc))
        return obstacles.first_clear(partial(orbit_path, capture, count, arc, obstacles.avoid), BANDWIDTHS)

    def _kind(self, capture: Capture) -> str:
        if self.kind != "auto":
            return self.kind
        return capture.kind if self.arc is None else "orbit"

    @property
    def is_file(self) -> bool:
        """Whether the frames are read from a file."""
        return self.kind.lower().endswith(".json")


def up_of(views: Sequence[View], up: tuple[float, float, float] | None, dense: np.ndarray | None = None) -> np.ndarray:
    """`up` normalised, float64 [3], or by default the cameras' up direction (see `up_direction`).

    UsageError for zero length.
    """
    if up is None:
        return up_direction(views, dense)
    length = np.linalg.norm(up)
    if length == 0:
        raise UsageError("--up 0,0,0 is not a direction")
    return np.array(up) / length


SHARES = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9)
"""Minimum shares of the cameras that see the subject, tried in this order: the first is the largest subject."""
MIN_ZOOM = 0.6
"""Minimum factor on the focal lengths. A subject that needs less is too large: the next share is tried."""
_MARGIN = 0.96
"""Part of the picture within which the subject is kept."""
_STRAYS = 1
"""Percentage of the subject's points that a frame may miss: floaters."""
_MIN_VIEWS, _MIN_POINTS = 3, 30
_SOME_VIEWS, _SOME_POINTS, _CHECKED = 200, 4000, 60


def shares_seen(views: Sequence[View], points: np.ndarray) -> np.ndarray:
    """Share of the views whose picture contains each of `points` [P, 3], occluded or not, [P]."""
    return np.mean([view.project(points)[2] for view in evenly_spread(views, _SOME_VIEWS)], axis=0)


def zoom_to_keep(path: Sequence[View], points: np.ndarray) -> float:
    """Largest factor on the focal lengths of a path with which every frame shows `points` [P, 3], except strays."""
    return min(_zoom(view, points) for view in path)


def framed(
    path: Sequence[View], views: Sequence[View], points: np.ndarray, size: tuple[int, int] | None = None
) -> list[View]:
    """The path with a field of view so wide that every frame shows the subject of `views`; never a narrower one.

    All frames have the same field of view: one that changes would look like a movement. points: [P, 3], of the scene.
    size: of the frames, pixels; None: as they are. If the cameras share no subject, the path only gets its size.
    """
    sized = [with_size(view, *size) for view in path] if size else list(path)
    if len(views) < _MIN_VIEWS or len(points) == 0:
        return sized
    some = points[:: ceil_div(len(points), _SOME_POINTS)].astype(np.float64)
    seen = shares_seen(views, some)
    is_cropped = sized[0].width / sized[0].height / (path[0].width / path[0].height)
    least, zoom = MIN_ZOOM * min(1.0, is_cropped), 1.0
    for share in SHARES:
        subject = some[seen >= share]
        if len(subject) < _MIN_POINTS:
            break
        zoom = max(_MARGIN * zoom_to_keep(evenly_spread(sized, _CHECKED), subject), least)
        if zoom > least:
            break
    return [dataclasses.replace(view, fx=view.fx * min(zoom, 1.0), fy=view.fy * min(zoom, 1.0)) for view in sized]


def _zoom(view: View, points: np.ndarray) -> float:
    pixels, z, _ = view.project(points)
    center = np.array([view.cx, view.cy])
    offsets = pixels - center
    room = np.where(offsets < 0, center, np.array([view.width, view.height]) - center)
    zooms = (room / np.maximum(np.abs(offsets), 1e-9)).min(axis=1)
    return float(np.percentile(np.where(z > 0, zooms, 0.0), _STRAYS))


def interpolate_path(views: Sequence[View], num_frames: int) -> list[View]:
    """`num_frames` cameras on a smooth path through all `views` in order, at constant speed.

    Centres on a cubic Hermite curve, rotations on a cubic Bezier curve of spherical interpolations (Shoemake 1985,
    "Animating rotation with quaternion curves"). Size and lens come from the first view.
    """
    centers, rotations = np.array([view.center for view in views]), np.array([view.w2c[:3, :3].T for view in views])
    turns = np.array([_turn(*pair) for pair in itertools.pairwise(rotations)]).reshape(-1, 3)
    times = _travel_times(np.linalg.norm(np.diff(centers, axis=0), axis=1), np.linalg.norm(turns, axis=1))
    moving, turning = _slopes(np.diff(centers, axis=0), times), _slopes(turns, times)
    frames = []
    for number, time in enumerate(np.linspace(0.0, times[-1], num_frames)):
        center, rotation = centers[0], rotations[0]
        if len(views) > 1:
            left = min(int(np.searchsorted(times, time, side="right")) - 1, len(views) - 2)
            ends, span = slice(left, left + 2), times[left + 1] - times[left]
            t = (float(time) - times[left]) / span
            center = _hermite(centers[ends], span * moving[ends], t)
            rotation = _rotation_between(rotations[ends], span * turning[ends], t)
        w2c = world_to_camera(nearest_rotation(rotation).T, center)
        frames.append(dataclasses.replace(views[0], name=f"{number:05d}", path=None, w2c=w2c))
    return frames


def with_size(view: View, width: int, height: int) -> View:
    """The view at `width` x `height` pixels: equal vertical field of view, cropped or extended at the sides."""
    scale = height / view.height
    return dataclasses.replace(
        view,
        width=width,
        height=height,
        fx=view.fx * scale,
        fy=view.fy * scale,
        cx=width / 2 + (view.cx - view.width / 2) * scale,
        cy=view.cy * scale,
    )


def _turn(rotation: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Rotation vector [3], in the axes of the camera, from one camera to world [3, 3] to another."""
    cosine, *axis = quat_from_matrix(rotation.T @ other)  # of half the angle, also exact for half a turn
    sine = float(np.linalg.norm(axis))
    return 2 * np.arctan2(sine, cosine) / max(sine, 1e-12) * np.array(axis)


def _travel_times(moved: np.ndarray, turned: np.ndarray) -> np.ndarray:
    """Arrival times [P] at the poses at constant speed, from distances and angles [P - 1] between them."""
    durations = moved / max(moved.mean(), 1e-12) + turned / max(turned.mean(), 1e-12) if len(moved) else moved
    return np.concatenate([[0.0], np.cumsum(durations + 1e-3)])


def _slopes(steps: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Slopes [P, 3] of the parabola through each pose and its neighbours, from the steps [P - 1, 3] between them."""
    if len(steps) < 2:
        return np.repeat(steps / np.diff(times)[:, None], 2, axis=0)
    spans = np.diff(times)[:, None]
    rates = steps / spans
    middle = (spans[1:] * rates[:-1] + spans[:-1] * rates[1:]) / (spans[1:] + spans[:-1])
    return np.concatenate([2 * rates[:1] - middle[:1], middle, 2 * rates[-1:] - middle[-1:]])


def _hermite(ends: np.ndarray, slopes: np.ndarray, t: float) -> np.ndarray:
    """The cubic curve with `slopes` [2, 3] from one of `ends` [2, 3] to the other, at t of 0 to 1."""
    return (
        (2 * t**3 - 3 * t**2 + 1) * ends[0]
        + (t**3 - 2 * t**2 + t) * slopes[0]
        + (3 * t**2 - 2 * t**3) * ends[1]
        + (t**3 - t**2) * slopes[1]
    )


def _rotation_between(ends: np.ndarray, slopes: np.ndarray, t: float) -> np.ndarray:
    """The rotation [3, 3] between `ends` [2, 3, 3], which are left and reached with `slopes` [2, 3], at t of 0 to 1."""
    first, last = ends
    points = [first, first @ rotation_from_vector(slopes[0] / 3), last @ rotation_from_vector(-slopes[1] / 3), last]
    while len(points) > 1:  # de Casteljau's algorithm
        points = [one @ rotation_from_vector(t * _turn(one, other)) for one, other in itertools.pairwise(points)]
    return points[0]
