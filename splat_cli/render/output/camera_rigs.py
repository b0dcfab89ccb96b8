"""Camera rigs: images composed of the frames of several pinhole cameras."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar, Protocol

import numpy as np

from splat_cli.render.frame import RenderedMaps
from splat_cli.scene.view import View


class CameraRig(Protocol):
    """Several pinhole cameras in place of one, and the composition of their frames.

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
