"""Camera rigs: images composed from several pinhole cameras. Stereo pairs, equirectangular panoramas."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import ClassVar, Protocol

import numpy as np

from splat_cli.render.rendered_maps import RenderedMaps
from splat_cli.scene.view import View


class CameraRig(Protocol):
    """Several pinhole cameras that render one frame, and the composition of their frames.

    distances: depths are distances from the camera centre instead of z.
    """

    distances: ClassVar[bool]

    def views(self, view: View) -> list[View]:
        """The pinhole cameras."""

    def join(self, frames: Sequence[RenderedMaps]) -> RenderedMaps:
        """One frame composed of the frames of `views`."""


@dataclasses.dataclass(frozen=True)
class SingleCamera:
    """A single pinhole camera."""

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


_TURNS = np.array([  # camera to face: rows are the face's right, down and forward
    [[1, 0, 0], [0, 1, 0], [0, 0, 1]],  # ahead
    [[0, 0, -1], [0, 1, 0], [1, 0, 0]],  # right
    [[-1, 0, 0], [0, 1, 0], [0, 0, -1]],  # behind
    [[0, 0, 1], [0, 1, 0], [-1, 0, 0]],  # left
    [[1, 0, 0], [0, 0, 1], [0, -1, 0]],  # up
    [[1, 0, 0], [0, 0, -1], [0, 1, 0]],  # down
], np.float64)  # fmt: skip
_OVERLAP = 1.2
"""Extent of a rendered face relative to the cube's: adjacent faces are blended where they overlap.

They differ slightly there, because each face sorts and projects splats along its own axis.
"""
_BAND = 64
"""Rows resampled at a time."""


@dataclasses.dataclass(frozen=True)
class Panorama:
    """Equirectangular images of `width` x `width` / 2 pixels, 360 by 180 degrees, resampled from six cube faces.

    The view's axis is in the centre. Faces have the resolution of the panorama's horizon at their centres. Depths are
    distances from the camera.
    """

    width: int
    distances: ClassVar[bool] = True

    @property
    def focal(self) -> float:
        """Focal length of a face, in pixels."""
        return self.width / (2 * math.pi)

    @property
    def side(self) -> int:
        """Pixels along the edge of a face, with a margin of one on each side for interpolation."""
        return 2 * (math.ceil(self.focal * _OVERLAP) + 1)

    def views(self, view: View) -> list[View]:
        """Six cameras at the view's position."""
        faces = []
        for turn in _TURNS:
            w2c = view.w2c.copy()
            w2c[:3] = turn @ w2c[:3]
            side, focal, middle = self.side, self.focal, self.side / 2
            faces.append(View(view.name, None, side, side, focal, focal, middle, middle, w2c))
        return faces

    def join(self, frames: Sequence[RenderedMaps]) -> RenderedMaps:
        """One frame of the six faces; depths from the nearest pixel, other maps by bilinear interpolation."""
        faces = [_in_one_frame(frame, turn) for frame, turn in zip(frames, _TURNS, strict=True)]
        bands = [self._band(top, faces) for top in range(0, self.width // 2, _BAND)]
        joined = {name: np.concatenate([band[name] for band in bands]) for name in faces[0]}
        if "normal" in joined:
            length = np.linalg.norm(joined["normal"], axis=-1, keepdims=True)
            joined["normal"] /= np.maximum(length, 1e-12)
        return RenderedMaps(**joined)

    def _band(self, top: int, faces: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """Rows of each map, starting at row `top`."""
        directions = self._directions(top, min(top + _BAND, self.width // 2))
        shape = directions.shape[:2]
        sums = {name: np.zeros((*shape, *face.shape[2:]), np.float32) for name, face in faces[0].items()}
        total, largest = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        for turn, maps in zip(_TURNS, faces, strict=True):
            x, y, z = np.moveaxis(directions @ turn.T, -1, 0)
            reach = np.maximum(abs(x), abs(y)) / np.maximum(z, 1e-12)
            weight = np.clip((_OVERLAP - reach) / (_OVERLAP - 1 / _OVERLAP), 0, 1).astype(np.float32)
            at = np.nonzero(weight)
            pixels = [self.focal * v[at] / z[at] + self.side / 2 - 0.5 for v in (x, y)]
            for name, face in maps.items():
                if name != "depth":
                    values = _bilinear(face, *pixels)
                    sums[name][at] += weight[at].reshape(-1, *[1] * (values.ndim - 1)) * values
            if "depth" in maps:
                column, row = (np.rint(v).astype(int) for v in pixels)
                closer = weight[at] > largest[at]
                sums["depth"][at] = np.where(closer, maps["depth"][row, column], sums["depth"][at])
            largest, total = np.maximum(largest, weight), total + weight
        return {name: v if name == "depth" else (v.T / total.T).T for name, v in sums.items()}

    def _directions(self, top: int, bottom: int) -> np.ndarray:
        """Unit vectors float64 [rows, width, 3] of the pixels in rows `top` to `bottom`, in camera coordinates."""
        longitude = ((np.arange(self.width) + 0.5) / self.width - 0.5) * 2 * np.pi
        latitude = (0.5 - (np.arange(top, bottom) + 0.5) / (self.width // 2))[:, None] * np.pi
        down = np.broadcast_to(-np.sin(latitude), (bottom - top, self.width))
        return np.stack([np.cos(latitude) * np.sin(longitude), down, np.cos(latitude) * np.cos(longitude)], axis=-1)


def _in_one_frame(frame: RenderedMaps, turn: np.ndarray) -> dict[str, np.ndarray]:
    """The maps of a face, with normals in the coordinates of the front face."""
    maps = frame.maps()
    return maps if frame.normal is None else {**maps, "normal": frame.normal @ turn.astype(np.float32)}


def _bilinear(face: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Bilinear interpolation of a map [side, side, ...] at pixel coordinates [P]; pixel centres are integers."""
    left, top = np.floor(x).astype(int), np.floor(y).astype(int)
    shape = (-1, *[1] * (face.ndim - 2))
    right, down = ((v - w).astype(np.float32).reshape(shape) for v, w in ((x, left), (y, top)))
    upper = face[top, left] * (1 - right) + face[top, left + 1] * right
    lower = face[top + 1, left] * (1 - right) + face[top + 1, left + 1] * right
    return upper * (1 - down) + lower * down
