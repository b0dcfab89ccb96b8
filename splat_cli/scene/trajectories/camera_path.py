"""Camera paths by name, or from a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from splat_cli.errors import UsageError
from splat_cli.scene.trajectories.capture import Capture
from splat_cli.scene.trajectories.clearance import Obstacles
from splat_cli.scene.trajectories.focus import focus_point, up_direction
from splat_cli.scene.trajectories.interpolate import interpolate_path
from splat_cli.scene.trajectories.orbits import BANDWIDTHS, REACHES, orbit_path, spiral_path
from splat_cli.scene.trajectories.path_file import read_path
from splat_cli.scene.trajectories.walk import BANDWIDTHS as WALK_BANDWIDTHS
from splat_cli.scene.trajectories.walk import walk_path
from splat_cli.scene.view import View

KINDS = ("auto", "orbit", "arc", "spiral", "walk", "interpolate")

DEFAULT_FPS = 30.0
_DEFAULT_FRAMES = 120


@dataclass(frozen=True)
class CameraPath:
    """Options of a path: one of KINDS or a JSON file; None: default.

    "auto" selects the kind by the cameras. arc: degrees. focus: point to look at and circle around. up: up direction,
    of any length.
    """

    kind: str
    frames: int | None = None
    seconds: float | None = None
    fps: float | None = None
    arc: float | None = None
    focus: tuple[float, float, float] | None = None
    up: tuple[float, float, float] | None = None

    def __post_init__(self) -> None:
        if self.frames is not None and self.seconds is not None:
            raise UsageError("--frames and --seconds exclude each other: --fps says how many frames a second has")
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

        dense: obstacles [P, 3], which also determine the ground. The result is the smoothest path that keeps half the
        distance of the nearest camera (clearance.py); "interpolate" passes through all cameras.
        """
        if self.is_file:
            frames, said = read_path(Path(self.kind))
            return frames, self.fps or said or DEFAULT_FPS
        fps = self.fps or DEFAULT_FPS
        up = up_of(views, self.up, dense)
        capture = Capture(views, focus_point(views) if self.focus is None else np.array(self.focus), up)
        kind = self._kind(capture)
        given = self.frames if self.seconds is None else max(1, round(self.seconds * fps))
        count = given or _DEFAULT_FRAMES
        if kind == "interpolate":
            return interpolate_path(views, count), fps
        obstacles = Obstacles(np.empty((0, 3)) if dense is None else dense, views)
        if kind == "walk":
            focus = None if capture.kind == "walk" else capture.focus
            return obstacles.first_clear(
                partial(walk_path, views, given, up, focus, obstacles.avoid), WALK_BANDWIDTHS
            ), fps
        if kind == "spiral":
            return obstacles.first_clear(partial(spiral_path, views, count, capture.focus, up), REACHES), fps
        arc = None if self.arc is None else float(np.radians(self.arc))
        return obstacles.first_clear(partial(orbit_path, capture, count, arc, obstacles.avoid), BANDWIDTHS), fps

    def _kind(self, capture: Capture) -> str:
        if self.kind != "auto":
            return self.kind
        return capture.kind if self.arc is None else "orbit"

    @property
    def is_file(self) -> bool:
        """Whether the frames are read from a file."""
        return self.kind.lower().endswith(".json")


def up_of(views: Sequence[View], up: tuple[float, float, float] | None, dense: np.ndarray | None = None) -> np.ndarray:
    """`up` normalised, float64 [3], or by default that of the cameras (see `up_direction`).

    UsageError for zero length.
    """
    if up is None:
        return up_direction(views, dense)
    length = np.linalg.norm(up)
    if length == 0:
        raise UsageError("--up 0,0,0 is not a direction")
    return np.array(up) / length
