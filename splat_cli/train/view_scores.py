"""Scores of splats for densification: blending weight and share of the error over random training views."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

import numpy as np

from splat_cli.config import ResolvedConfig, TrainConfig
from splat_cli.data.training_images import TrainingImages, in_slots
from splat_cli.density.ratings import mean_scores
from splat_cli.device import DeviceArray, MemoryCost
from splat_cli.render.iter_state import IterState
from splat_cli.train.step import BatchStep, CapturedGraph, Replay, ViewPipeline

MAX_AT_ONCE = 16  # views of a graph


class ViewsToScore(Protocol):
    """Renders the views that a ViewScorer scores: all views (LocalViews), or one rank's views (train/multi_gpu/)."""

    @property
    def at_once(self) -> int:
        """Number of views in a graph."""

    def load(self, views: np.ndarray, reset: Callable[[], None]) -> None:
        """Load the photographs of `views` and call `reset`."""

    def graph(self, count: int, views: DeviceArray, cursor: DeviceArray, score: Callable[[], None]) -> Replay:
        """Renders the next `count` of `views` from `cursor` on, and calls `score` after each."""

    def grow_if_overflowed(self, state: IterState) -> bool:
        """See Rasterizer.grow_if_overflowed."""

    def release(self) -> None:
        """Free buffers, except the rasterizer's."""


class LocalViews(ViewsToScore):
    """All views: on one GPU, each view is prepared while the previous one is scored, if memory allows."""

    def __init__(self, batch_step: BatchStep, images: TrainingImages) -> None:
        self._batch_step, self._rasterizer, self._images = batch_step, batch_step.rasterizer, images
        self._pipeline = ViewPipeline(batch_step.backend, batch_step.state, self._prepare, self._select)

    @property
    def at_once(self) -> int:
        raster = self._rasterizer
        return MAX_AT_ONCE if raster.settings.ahead and not raster.coloring else 1

    def load(self, views: np.ndarray, reset: Callable[[], None]) -> None:
        self._images.load(views)
        reset()

    def graph(self, count: int, views: DeviceArray, cursor: DeviceArray, score: Callable[[], None]) -> Replay:
        self._source = views, cursor
        return CapturedGraph(self._rasterizer, partial(self._launch, count, score))

    def release(self) -> None:
        """All buffers are the rasterizer's."""

    def grow_if_overflowed(self, state: IterState) -> bool:
        return self._rasterizer.grow_if_overflowed(state)

    def _launch(self, count: int, score: Callable[[], None]) -> None:
        self._pipeline.begin(0)
        for view in range(count):
            with self._pipeline.view(view, 0, count - 1):
                self._rasterizer.blend(self._batch_step.model.splats, self._batch_step.state)
                score()

    def _prepare(self, view: int, state: IterState) -> None:
        """Queue the choice of the next view, its projected splats and its tile lists."""
        raster = self._rasterizer
        self._select(view)
        raster.backend.kernel("optim/begin_step", "next_view")((1,), (1,), state.array, *self._source)
        raster.project_and_sort(self._batch_step.model.splats, state)

    def _select(self, view: int) -> None:
        self._rasterizer.select(view % self._rasterizer.settings.num_buffers)


class ViewScorer:
    """Renders random training views through the rasterizer of the training loop and scores the splats.

    Views are captured as graphs and replayed; the host waits for the device only after the last view.
    """

    def __init__(self, batch_step: BatchStep, views: ViewsToScore, rng: np.random.Generator) -> None:
        self.batch_step, self.rasterizer, self.rng, self.views = batch_step, batch_step.rasterizer, rng, views
        self._fixed_sums = has_fixed_scores(batch_step.config, batch_step.backend.name == "cuda")
        self._graphs: dict[int, Replay] = {}  # by number of views
        self._sums: DeviceArray = None
        self._source: tuple[DeviceArray, DeviceArray]  # views to score, int32; number of views done, int32 [1]

    @staticmethod
    def memory_cost(config: ResolvedConfig, deterministic: bool) -> MemoryCost:
        """Device memory of the scores, on rank 0 also of another rank's scores. deterministic: on a GPU."""
        fixed_sums = has_fixed_scores(config, deterministic)
        return MemoryCost(per_splat=(16 if fixed_sums else 8) * min(config.gpus, 2))

    @property
    def sums_width(self) -> int:
        """Words of a splat's sums; doubled for fixed-point sums, which have the same bits in any order."""
        return 4 if self._fixed_sums or self.rasterizer.settings.deterministic else 2

    def release(self) -> None:
        """Free the buffers of scores; the rasterizer frees its own."""
        self._sums = None
        self._graphs.clear()
        self.views.release()

    def scores(self, num_views: int) -> tuple[DeviceArray, DeviceArray]:
        """Mean over random views of every splat's blending weight and share of the error, float32 [num], px."""
        views = self.draw(num_views)
        return self.means(self.sums(views), len(views))

    def draw(self, num_views: int) -> np.ndarray:
        """Random views to score, int32; divided among the slots of a batch as evenly as in training."""
        num_cameras = len(self.rasterizer.cameras.views)
        return in_slots(self.rng.permutation(num_cameras).astype(np.int32), self.batch_step.batch)[:num_views]

    def sums(self, views: np.ndarray) -> DeviceArray:
        """Sums of the scores over `views` int32, in the format of blend_scores; valid until the next call."""
        self._score(views)
        while self.views.grow_if_overflowed(self.batch_step.state):
            self._score(views)
        return self._sums

    def means(self, sums: DeviceArray, num_views: int) -> tuple[DeviceArray, DeviceArray]:
        """Scores from their sums over `num_views` views."""
        means = mean_scores(self.rasterizer.backend, sums, self.batch_step.model.num, num_views)
        return means[0], means[1]

    def _score(self, views: np.ndarray) -> None:
        """Score `views`, except those whose pairs exceed the buffers."""
        if not all(graph.current for graph in self._graphs.values()):
            self._graphs.clear()
        self.views.load(views, partial(self._reset, views, keep=bool(self._graphs)))
        for first in range(0, len(views), self.views.at_once):
            count = min(self.views.at_once, len(views) - first)
            if count not in self._graphs:
                self._graphs[count] = self.views.graph(count, *self._source, self._add_scores)
            self._graphs[count].run(1)

    def _reset(self, views: np.ndarray, keep: bool) -> None:
        """Set the sums to 0 and the cursor before the first view. keep: the arrays, which captured graphs hold."""
        backend = self.rasterizer.backend
        if keep:
            shown, cursor = self._source
            self._sums[...] = 0
            shown[...], cursor[...] = backend.upload(views), 0
        else:
            self._sums = backend.xp.zeros((self.rasterizer.projected_batch.columns, self.sums_width), "float32")
            self._source = backend.upload(views), backend.upload(np.zeros(1, np.int32))

    def _add_scores(self) -> None:
        """Queue the scores of the rendered view."""
        raster, state = self.rasterizer, self.batch_step.state
        errors = raster.rendered.d_image  # unused between training steps
        self.batch_step.joint.loss.forward(state, raster.rendered.image, errors)
        raster.score(state, errors, self._sums, self.sums_width == 4)


def has_fixed_scores(config: TrainConfig, is_cuda: bool) -> bool:
    """Whether --deterministic needs scores in fixed point: a GPU and several ranks add them in any order."""
    return config.deterministic and (is_cuda or config.batch_size > 1)
