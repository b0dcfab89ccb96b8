"""A box in the viewer that hides splats outside, and the command-line option that crops a file alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from splat_cli.scene.crop import Box

if TYPE_CHECKING:
    from viser import ViserServer

_AXES = "xyz"
_COLOR = (90, 200, 255)


class CropPanel:
    """Panel folder. box: region in which splats are shown, or None. on_change: called when it changes."""

    def __init__(self, server: ViserServer, centers: np.ndarray, on_change: Callable[[], None]) -> None:
        self._server, self._on_change = server, on_change
        low, high = np.quantile(centers, (0.005, 0.995), axis=0) if len(centers) else (-np.ones(3), np.ones(3))
        margin = 0.05 * (high - low) + 1e-3
        self.box: Box | None = None
        with server.gui.add_folder("Crop", expand_by_default=False):
            self._on = server.gui.add_checkbox("Crop", False)
            self._sliders = [
                _slider(server, axis, float(a), float(b))
                for axis, a, b in zip(_AXES, low - margin, high + margin, strict=True)
            ]
            self._option: Any = server.gui.add_text(
                "Option", "", disabled=True, visible=False, hint="For splat export and splat train"
            )
        for control in (self._on, *self._sliders):
            control.on_update(lambda _: self._changed())

    def _changed(self) -> None:
        corners = [slider.value for slider in self._sliders]
        low, high = (tuple(float(corner[end]) for corner in corners) for end in (0, 1))
        kept = self._on.value and all(a < b for a, b in corners)
        self.box = Box((low[0], low[1], low[2]), (high[0], high[1], high[2])) if kept else None
        self._option.value = "--crop " + ",".join(f"{value:g}" for value in (*low, *high))
        self._option.visible = kept
        self._server.scene.add_box(
            "/crop", color=_COLOR, dimensions=tuple(max(b - a, 1e-6) for a, b in corners), wireframe=True,
            position=tuple((a + b) / 2 for a, b in corners), visible=self.box is not None,
        )  # fmt: skip
        self._on_change()


def _slider(server: ViserServer, axis: str, low: float, high: float) -> Any:
    step = float(f"{(high - low) / 200:.1g}")
    low, high = np.floor(low / step) * step, np.ceil(high / step) * step
    return server.gui.add_multi_slider(axis, float(low), float(high), step, (float(low), float(high)))
