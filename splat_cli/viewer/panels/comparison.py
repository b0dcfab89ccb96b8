"""Comparison of a photograph with the render from its camera."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from splat_cli.eval.metrics import psnr

if TYPE_CHECKING:
    from viser import ViserServer

_BLANK = np.full((8, 8, 3), 36, np.uint8)
"""Colour of the panel."""
_WIDTH = 400
_DIVIDER = np.array([255, 160, 40], np.uint8)


class Comparison:
    """Panel folder: the photograph left of a slider, the render right of it; or their difference.

    Hidden until it has a picture: on phones, the panel covers the scene.
    """

    def __init__(self, server: ViserServer) -> None:
        self._photograph: np.ndarray | None = None
        self._rendered = _BLANK
        self._folder = server.gui.add_folder("Compare", visible=False)
        with self._folder:
            self._title = server.gui.add_markdown("")
            self._image = server.gui.add_image(_BLANK, format="jpeg", jpeg_quality=90)
            self._share = server.gui.add_slider("Photograph", 0, 100, 1, 50, hint="Share shown on the left, in percent")
            self._difference = server.gui.add_checkbox(
                "Difference", False, hint="Absolute difference, brightened four times"
            )
        self._share.on_update(lambda _: self._draw())
        self._difference.on_update(lambda _: self._draw())

    def show(self, name: str, rendered: np.ndarray, photograph: np.ndarray | None) -> None:
        """Show pictures uint8 [H, W, 3] of equal size; without a photograph, the render alone."""
        self._rendered, self._photograph = rendered, photograph
        fact = "no photograph" if photograph is None else f"PSNR {psnr(rendered, photograph):.2f} dB"
        self._title.content = f"**{name}**, {fact}"
        self._folder.visible = True
        self._draw()

    def _draw(self) -> None:
        both = padded(compose(self._rendered, self._photograph, self._share.value / 100, self._difference.value))
        times = max(1, round(_WIDTH / both.shape[1]))  # enlarges small pictures to the panel's width
        self._image.image = both.repeat(times, axis=0).repeat(times, axis=1)


def compose(rendered: np.ndarray, photograph: np.ndarray | None, share: float, difference: bool) -> np.ndarray:
    """Left `share` from the photograph and the rest from the render, or four times their absolute difference."""
    if photograph is None:
        return rendered
    if difference:
        return np.clip(4 * np.abs(rendered.astype(np.int16) - photograph), 0, 255).astype(np.uint8)
    border = round(share * rendered.shape[1])
    both = np.concatenate([photograph[:, :border], rendered[:, border:]], axis=1)
    if 0 < border < rendered.shape[1]:
        both[:, border] = _DIVIDER
    return both


def padded(picture: np.ndarray) -> np.ndarray:
    """The picture. A portrait is padded to a square to limit its height in the panel."""
    height, width = picture.shape[:2]
    missing = max(height - width, 0)
    square = np.empty((height, width + missing, 3), np.uint8)
    square[:] = _BLANK[0, 0]
    square[:, missing // 2 : missing // 2 + width] = picture
    return square
