"""Renders training views from coarse splats: the share that each cell covers, and training pictures of cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageFilter

from splat_cli.device import Backend
from splat_cli.gaussians.arrays import SplatArrays
from splat_cli.gaussians.splats import Splats
from splat_cli.render.images import to_8bit
from splat_cli.render.view import ViewRenderer
from splat_cli.scene.view import View

MIN_SHARE = 0.05
"""A cell is trained on a photograph if it covers at least this share of the picture."""
MIN_VIEWS = 25
"""Minimum number of photographs of a cell, if enough show it."""
_SEEN = 0.01
"""Minimum weight, in a picture, of splats around a cell, px."""
_COVERED = 0.02
"""Share of a pixel that a cell must cover for the photograph to be used there."""
_BAND = 3
"""Margin around these pixels in which the photograph is used, px."""


class CoarseViews:
    """Renders coarse splats from `views`, on the background of the run."""

    def __init__(
        self, backend: Backend, splats: SplatArrays, views: Sequence[View], background: Sequence[float]
    ) -> None:
        self.backend, self.views, self._background = backend, views, background
        self._num = len(splats)
        self._renderer = ViewRenderer(backend, Splats.from_arrays(backend, splats), views, splats.antialiased)
        self._no_errors = backend.xp.zeros(3 * self._renderer.cameras.max_pixels, "float32")

    def weights(self, index: int) -> np.ndarray:
        """Blending weight of each splat, summed over the view, float32 [N], px."""
        self._renderer.forward(index, self._background)
        return self._weights()

    def mark(self, inside: np.ndarray) -> Any:
        """The splats `inside`, bool [N], as an argument for `render`."""
        return self.backend.upload(inside.astype(np.float32)[:, None])

    def render(self, index: int, inside: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(picture, coverage, weights) of a view.

        picture: float32 [H, W, 3], not clamped. coverage: share of each pixel covered by the splats `inside` (see
        `mark`), float32 [H, W]. weights: see the method.
        """
        picture = self._renderer.render(index, self._background)
        weights = self._weights()
        coverage = self.backend.download(self._renderer.blended(index, inside)[0])
        return picture, coverage, weights

    def _weights(self) -> np.ndarray:
        """Weights in the view that was rendered last."""
        scores = self.backend.xp.zeros((self._num, 2), "float32")
        self._renderer.rasterizer.score(self._renderer.state, self._no_errors, scores)
        return self.backend.download(scores)[:, 0]


def views_of_cells(shares: np.ndarray) -> list[np.ndarray]:
    """Indices of the views of each cell, ascending: those of which it covers MIN_SHARE, but at least MIN_VIEWS.

    shares: share of each picture that each cell covers, float64 [views, cells].
    """
    chosen = []
    for share in shares.T:
        largest = np.argsort(-share, kind="stable")[:MIN_VIEWS]
        chosen.append(np.flatnonzero((share >= MIN_SHARE) | (np.isin(np.arange(len(share)), largest) & (share > 0))))
    return chosen


def covered_shares(weights: np.ndarray, numbers: np.ndarray, num_cells: int, view: View) -> np.ndarray:
    """Share of the picture that the splats of each cell cover, float64 [num_cells].

    weights: from CoarseViews, [N]. numbers: cell of each splat, int [N]; num_cells for splats outside all cells.
    """
    return np.bincount(numbers, weights, num_cells + 1)[:num_cells] / (view.width * view.height)


def is_shown(weights: np.ndarray) -> np.ndarray:
    """Mask of the splats that a view shows, from their weights."""
    return weights > _SEEN


def without_exposure(photograph: np.ndarray, change: np.ndarray) -> np.ndarray:
    """The photograph uint8 [H, W, 3] without its exposure: y = x + D (x, 1) solved for x.

    change: D, float [3, 4], for colours from 0 to 1, as trained by `ExposureLoss`.
    """
    inverse = np.linalg.inv(np.eye(3) + change[:, :3])
    colors = (photograph / 255 - change[:, 3]) @ inverse.T
    return to_8bit(colors)


def picture_of_cell(photograph: np.ndarray, coarse: np.ndarray, coverage: np.ndarray) -> np.ndarray:
    """Training picture of a cell, uint8 [H, W, 3]: the photograph where it shows the cell, otherwise `coarse`.

    coarse, coverage: from CoarseViews.render.

    The frozen surroundings already show the coarse picture. If they were compared with the photograph, splats of the
    cell would compensate for errors of the surroundings.
    """
    near = Image.fromarray(coverage > _COVERED).convert("L").filter(ImageFilter.BoxBlur(_BAND))
    return np.where(np.asarray(near)[:, :, None] > 0, photograph, to_8bit(coarse))
