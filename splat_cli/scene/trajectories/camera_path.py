"""Camera paths by name, or from a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from splat_cli.errors import UsageError
from splat_cli.scene.trajectories.focus import focus_point, up_direction
from splat_cli.scene.trajectories.interpolate import interpolate_path
from splat_cli.scene.trajectories.orbits import ellipse_path, orbit_path, spiral_path
from splat_cli.scene.trajectories.path_file import read_path
from splat_cli.scene.view import View

_ABOUT_FOCUS = {"orbit": orbit_path, "ellipse": ellipse_path, "spiral": spiral_path}
KINDS = (*_ABOUT_FOCUS, "interpolate")

DEFAULT_FPS = 30.0
_FRAMES = 120


@dataclass(frozen=True)
class CameraPath:
    """A path as it is asked for: one of KINDS or a JSON file; None leaves to us.

    focus: the point to circle and look at. up: the direction that is up, of any length.
    """

    kind: str
    frames: int | None = None
    seconds: float | None = None
    fps: float | None = None
    focus: tuple[float, float, float] | None = None
    up: tuple[float, float, float] | None = None

    def __post_init__(self) -> None:
        if self.frames is not None and self.seconds is not None:
            raise UsageError("--frames and --seconds exclude each other: --fps says how many frames a second has")
        counted = self.frames is not None or self.seconds is not None
        if self.is_file and (counted or self.focus):
            raise UsageError(f"{self.kind} says where its frames are: leave out --frames, --seconds and --focus")
        if not self.is_file and self.kind not in KINDS:
            raise UsageError(f"--path {self.kind}: expected {', '.join(KINDS)} or the name of a .json file")

    @property
    def name(self) -> str:
        """What to call the folder of its pictures."""
        return Path(self.kind).stem

    def through(self, views: Sequence[View]) -> tuple[list[View], float]:
        """(the path's cameras, frames a second); `views` are what it goes through or about. Raises FormatError."""
        if self.is_file:
            frames, said = read_path(Path(self.kind))
            return frames, self.fps or said or DEFAULT_FPS
        fps = self.fps or DEFAULT_FPS
        count = max(1, round(self.seconds * fps)) if self.seconds is not None else self.frames or _FRAMES
        if self.kind not in _ABOUT_FOCUS:
            return interpolate_path(views, count), fps
        focus = focus_point(views) if self.focus is None else np.array(self.focus)
        return _ABOUT_FOCUS[self.kind](views, count, focus, up_of(views, self.up)), fps

    @property
    def is_file(self) -> bool:
        """Whether the frames are read from a file."""
        return self.kind.lower().endswith(".json")


def up_of(views: Sequence[View], up: tuple[float, float, float] | None) -> np.ndarray:
    """`up` at length 1, float64 [3], or where it is None the cameras' own. UsageError where it has no length."""
    if up is None:
        return up_direction(views)
    length = np.linalg.norm(up)
    if length == 0:
        raise UsageError("--up 0,0,0 is no direction")
    return np.array(up) / length
