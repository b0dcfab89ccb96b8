"""Scores of splats for densification: blending weight and share of the error over random training views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from splat_cli.density.ratings import mean_scores
from splat_cli.device.memory_cost import MemoryCost
from splat_cli.optim.loss import PhotometricLoss
from splat_cli.optim.model import Model
from splat_cli.render.captured_graph import CapturedGraph
from splat_cli.render.iter_state import IterState
from splat_cli.render.rasterizer import Rasterizer


class ViewScorer:
    """Renders random training views through the rasterizer of the training loop and scores the splats.

    One view is captured as a graph and replayed; the host waits for the device only after the last view.
    """

    def __init__(
        self,
        rasterizer: Rasterizer,
        loss: PhotometricLoss,
        model: Model,
        state: IterState,
        random: np.random.Generator,
        show: Callable[[np.ndarray], object] = lambda views: None,
    ) -> None:
        """show: called with the views to score, to load their photographs."""
        self.rasterizer, self.loss, self.model, self.state, self.random = rasterizer, loss, model, state, random
        self._show = show
        self._graph = CapturedGraph(rasterizer, self._launch)
        self._scores: Any = None
        self._views: Any = None  # to score, int32, and number of views done, int32 [1]
        self._cursor: Any = None

    @staticmethod
    def memory_cost(deterministic: bool) -> MemoryCost:
        """Device memory of the scores."""
        return MemoryCost(per_splat=16 if deterministic else 8)

    def release(self) -> None:
        """Free the buffer of scores; the rasterizer frees its own."""
        self._scores = None

    def scores(self, num_views: int) -> tuple[Any, Any]:
        """Mean over random views of every splat's blending weight and share of the error, float32 [num], px."""
        num_cameras = len(self.rasterizer.cameras.views)
        views = self.random.permutation(num_cameras)[:num_views].astype(np.int32)
        self._show(views)
        self._score(views)
        while self.rasterizer.grow_if_overflowed(self.state):
            self._score(views)
        means = mean_scores(self.rasterizer.backend, self._scores, self.model.num, len(views))
        return means[0], means[1]

    def _score(self, views: np.ndarray) -> None:
        """Score `views`, except those whose pairs exceed the buffers."""
        backend = self.rasterizer.backend
        if self._graph.current:
            self._scores[...] = 0
            self._views[...], self._cursor[...] = backend.upload(views), 0
        else:
            words = 4 if self.rasterizer.deterministic else 2
            self._scores = backend.xp.zeros((self.model.splats.capacity, words), "float32")
            self._views, self._cursor = backend.upload(views), backend.upload(np.zeros(1, np.int32))
        self._graph.run(len(views))

    def _launch(self) -> None:
        raster = self.rasterizer
        raster.backend.kernel("optim/begin_step", "next_view")((1,), (1,), self.state.array, self._views, self._cursor)
        raster.forward(self.model.splats, self.state)
        errors = raster.picture.d_image  # unused between training steps
        self.loss.forward(self.state, raster.picture.image, errors)
        raster.score(self.state, errors, self._scores)
