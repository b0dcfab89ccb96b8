"""A photograph and the splats from the same camera, in one picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from splat_cli.eval.metrics import psnr

if TYPE_CHECKING:
    from viser import ViserServer

_BLANK = np.full((90, 120, 3), 40, np.uint8)
_WIDTH = 400
_DIVIDER = np.array([255, 160, 40], np.uint8)


class Comparison:
    """A folder of the panel: the photograph left of a slider, the splats right of it, or how far they differ."""

    def __init__(self, server: ViserServer) -> None:
        self._photograph: np.ndarray | None = None
        self._rendered = _BLANK
        with server.gui.add_folder("Compare", expand_by_default=True):
            self._title = server.gui.add_markdown("Click on a camera, or choose one.")
            self._image = server.gui.add_image(_BLANK, format="jpeg", jpeg_quality=90)
            self._share = server.gui.add_slider("Photograph", 0, 100, 1, 50, hint="Left of here, in percent")
            self._difference = server.gui.add_checkbox("Difference", False, hint="How far they are apart, brightened")
        self._share.on_update(lambda _: self._draw())
        self._difference.on_update(lambda _: self._draw())

    def show(self, name: str, rendered: np.ndarray, photograph: np.ndarray | None) -> None:
        """Pictures uint8 [H, W, 3] of one size; without a photograph the splats alone."""
        self._rendered, self._photograph = rendered, photograph
        fact = "no photograph" if photograph is None else f"PSNR {psnr(rendered, photograph):.2f} dB"
        self._title.content = f"**{name}**, {fact}"
        self._draw()

    def _draw(self) -> None:
        both = compose(self._rendered, self._photograph, self._share.value / 100, self._difference.value)
        times = max(1, _WIDTH // both.shape[1])  # small pictures fill the panel
        self._image.image = both.repeat(times, axis=0).repeat(times, axis=1)


def compose(rendered: np.ndarray, photograph: np.ndarray | None, share: float, difference: bool) -> np.ndarray:
    """The left `share` of the photograph and the rest of the render, or four times their absolute difference."""
    if photograph is None:
        return rendered
    if difference:
        return np.clip(4 * np.abs(rendered.astype(np.int16) - photograph), 0, 255).astype(np.uint8)
    border = round(share * rendered.shape[1])
    both = np.concatenate([photograph[:, :border], rendered[:, border:]], axis=1)
    if 0 < border < rendered.shape[1]:
        both[:, border] = _DIVIDER
    return both
