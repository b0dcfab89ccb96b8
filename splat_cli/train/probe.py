"""Looks at training views for density control: who contributes, and who is to blame for the error."""

from __future__ import annotations

from typing import Any

import numpy as np

from splat_cli.optim.model import Model
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.render.step import StepState

HEADROOM = 1.5  # of the pair buffers when they had to grow


class ViewProbe:
    """Renders random training views through the rasterizer of the training loop and scores the splats."""

    def __init__(self, rasterizer: Rasterizer, model: Model, state: StepState, random: np.random.Generator) -> None:
        self.rasterizer, self.model, self.state, self.random = rasterizer, model, state, random

    def scores(self, num_views: int) -> tuple[Any, Any]:
        """Mean over random views of every splat's blending weight and of its share of the error, float32 [num], px."""
        xp = self.rasterizer.backend.xp
        views = self.random.permutation(len(self.rasterizer.cameras.views))[:num_views]
        scores = xp.zeros((self.model.splats.capacity, 2), "float32")
        for view in views:
            self._score(int(view), scores)
        mean = scores[: self.model.num] / np.float32(len(views))
        return mean[:, 0], mean[:, 1]

    def _score(self, view: int, scores: Any) -> None:
        raster, splats = self.rasterizer, self.model.splats
        while True:
            self.state.write(view=view, halted=0, num_visible=0, num_segments=0)
            raster.forward(splats, self.state)
            raster.backend.kernel("blend_scores", "blend_scores")(
                (raster.tiles.max_tiles,), (32, 8),
                raster.cameras.array, self.state.array, raster.tiles.tile_begins, raster.tiles.splat_from_pair,
                raster.projection.means2d, raster.projection.conic_opacity, raster.projection.colors,
                raster.picture.image, raster.picture.last_pair, scores,
            )  # fmt: skip
            state = self.state.read()
            if not state["halted"]:
                return
            raster.resize_pairs(splats.capacity, int(state["needed_pairs"] * HEADROOM))
