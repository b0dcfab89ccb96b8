"""Camera rigs: images of other cameras than the view's. Stereo pairs, panoramas, fisheye pictures."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import ClassVar, Protocol

import numpy as np

from splat_cli.render.rendered_maps import RenderedMaps
from splat_cli.scene.lens import spherical_lens
from splat_cli.scene.lens.distortion import Polynomial
from splat_cli.scene.view import View


class CameraRig(Protocol):
    """Cameras that render one frame, and the composition of their frames.

    distances: depths are distances from the camera centre instead of z.
    """

    distances: ClassVar[bool]

    def views(self, view: View) -> list[View]:
        """The cameras."""

    def join(self, frames: Sequence[RenderedMaps]) -> RenderedMaps:
        """One frame composed of the frames of `views`."""


@dataclasses.dataclass(frozen=True)
class SingleCamera:
    """The camera of the view."""

    distances: ClassVar[bool] = False

    def views(self, view: View) -> list[View]:
        return [view]

    def join(self, frames: Sequence[RenderedMaps]) -> RenderedMaps:
        return frames[0]


@dataclasses.dataclass(frozen=True)
class StereoPair:
    """Two parallel cameras, `baseline` world units apart and centred on the view; frames side by side, left first."""

    baseline: float
    distances: ClassVar[bool] = False

    def views(self, view: View) -> list[View]:
        return [_shifted(view, side * self.baseline / 2) for side in (-1, 1)]

    def join(self, frames: Sequence[RenderedMaps]) -> RenderedMaps:
        maps = [frame.maps() for frame in frames]
        return RenderedMaps(**{name: np.concatenate([one[name] for one in maps], axis=1) for name in maps[0]})


def _shifted(view: View, right: float) -> View:
    """The view, translated to the right by a distance in world units."""
    w2c = view.w2c.copy()
    w2c[0, 3] -= right
    return dataclasses.replace(view, w2c=w2c)


_EQUIDISTANT = Polynomial(fisheye=True)
_POLES = np.array([  # camera to pole: rows are right, down and forward of cameras that look up and down
    [[1, 0, 0], [0, 0, 1], [0, -1, 0]],
    [[1, 0, 0], [0, 0, -1], [0, 1, 0]],
], np.float64)  # fmt: skip
_FROM_POLE = np.deg2rad(30)
"""Nearer to a pole, pictures of a fisheye lens replace that of the sphere, where splats are stretched without limit."""
_BLENDED = np.deg2rad(8)
"""Width of the ring around it in which both are blended."""


@dataclasses.dataclass(frozen=True)
class Panorama:
    """Equirectangular images of `width` x `width` / 2 pixels, 360 by 180 degrees, rendered through lenses.

    A spherical lens, and two fisheye lenses for the poles. The view's axis is in the centre. Depths are distances from
    the camera.
    """

    width: int
    distances: ClassVar[bool] = True

    @property
    def side(self) -> int:
        """Pixels along the edge of a picture of a pole, with a margin of one on each side for interpolation."""
        return 2 * (math.ceil(self.width / (2 * math.pi) * _FROM_POLE) + 1)

    def views(self, view: View) -> list[View]:
        """Three cameras at the view's position."""
        lens = spherical_lens(self.width, self.width // 2)
        matrix = lens.fx, lens.fy, lens.cx, lens.cy
        cameras = [View(view.name, None, lens.width, lens.height, *matrix, view.w2c, distortion=lens.distortion)]
        for turn in _POLES:
            w2c = view.w2c.copy()
            w2c[:3] = turn @ w2c[:3]
            matrix = lens.fx, lens.fx, self.side / 2, self.side / 2
            cameras.append(View(view.name, None, self.side, self.side, *matrix, w2c, distortion=_EQUIDISTANT))
        return cameras

    def join(self, frames: Sequence[RenderedMaps]) -> RenderedMaps:
        """One frame of the three; depths at poles from the nearest pixel, other maps by bilinear interpolation."""
        joined = {name: values.copy() for name, values in frames[0].maps().items()}
        num_rows = math.floor(self.width // 2 * _FROM_POLE / math.pi)
        angles = (np.arange(num_rows) + 0.5) / (self.width // 2) * math.pi  # from the pole
        weight = np.clip((_FROM_POLE - angles) / _BLENDED, 0, 1)
        for frame, turn, rows in zip(frames[1:], _POLES, (np.arange(num_rows), -1 - np.arange(num_rows)), strict=True):
            x, y = self._places(angles, up=turn[2, 1] < 0)
            maps = frame.maps() if frame.normal is None else {**frame.maps(), "normal": frame.normal @ turn}
            for name, values in maps.items():
                if name == "depth":
                    joined[name][rows] = np.where(
                        weight[:, None] > 0.5,
                        values[np.rint(y).astype(int), np.rint(x).astype(int)],
                        joined[name][rows],
                    )
                else:
                    w = weight.reshape(-1, *[1] * (values.ndim - 1))
                    joined[name][rows] = (1 - w) * joined[name][rows] + w * _bilinear(values, x, y)
        if "normal" in joined:
            joined["normal"] /= np.maximum(np.linalg.norm(joined["normal"], axis=-1, keepdims=True), 1e-12)
        return RenderedMaps(**joined)

    def _places(self, angles: np.ndarray, up: bool) -> tuple[np.ndarray, np.ndarray]:
        """Pixels (x, y), float64 [rows, width] each, of a pole's picture for rows at these angles from the pole."""
        longitude = ((np.arange(self.width) + 0.5) / self.width - 0.5) * 2 * math.pi
        radius, middle = self.width / (2 * math.pi) * angles[:, None], self.side / 2 - 0.5
        return middle + radius * np.sin(longitude), middle + (1 if up else -1) * radius * np.cos(longitude)


@dataclasses.dataclass(frozen=True)
class Fisheye:
    """Square images of `width` pixels with a circle of 180 degrees, equidistant, as domes show them; black around it.

    Depths are distances from the camera.
    """

    width: int
    distances: ClassVar[bool] = True

    def views(self, view: View) -> list[View]:
        """One camera, at the view's pose."""
        middle, focal = self.width / 2, self.width / math.pi
        matrix = focal, focal, middle, middle
        return [View(view.name, None, self.width, self.width, *matrix, view.w2c, distortion=_EQUIDISTANT)]

    def join(self, frames: Sequence[RenderedMaps]) -> RenderedMaps:
        """The frame, zero outside of the circle."""
        x = np.arange(self.width) + 0.5 - self.width / 2
        inside = np.hypot(x, x[:, None]) <= self.width / 2
        maps = frames[0].maps().items()
        return RenderedMaps(
            **{
                name: np.where(inside.reshape(*inside.shape, *[1] * (values.ndim - 2)), values, 0)
                for name, values in maps
            }
        )


def _bilinear(picture: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Bilinear interpolation of a map [side, side, ...] at pixels [R, C]; pixel centres are integers."""
    left, top = np.floor(x).astype(int), np.floor(y).astype(int)
    shape = (*x.shape, *[1] * (picture.ndim - 2))
    right, down = ((v - w).astype(np.float32).reshape(shape) for v, w in ((x, left), (y, top)))
    upper = picture[top, left] * (1 - right) + picture[top, left + 1] * right
    lower = picture[top + 1, left] * (1 - right) + picture[top + 1, left + 1] * right
    return upper * (1 - down) + lower * down
