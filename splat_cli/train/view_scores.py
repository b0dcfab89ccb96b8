"""Scores of splats for densification: blending weight and share of the error over random training views."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from splat_cli.config import ResolvedConfig, TrainConfig
from splat_cli.data.view_order import in_slots
from splat_cli.density.ratings import mean_scores
from splat_cli.device import DeviceArray
from splat_cli.device.memory_cost import MemoryCost
from splat_cli.joint.loss import PhotometricLoss
from splat_cli.model.model import Model
from splat_cli.render.iter_state import IterState
from splat_cli.render.project import num_ahead
from splat_cli.render.rasterizer import Rasterizer
from splat_cli.train.step import MAX_AHEAD, CapturedGraph, Replay, ViewPipeline

MAX_AT_ONCE = 16  # views of a graph


class ViewScorer:
    """Renders random training views through the rasterizer of the training loop and scores the splats.

    Views are captured as graphs and replayed; the host waits for the device only after the last view.
    """

    def __init__(
        self, config: ResolvedConfig, model: Model, rasterizer: Rasterizer, loss: PhotometricLoss, state: IterState,
        load_photographs: Callable[[np.ndarray], object], rng: np.random.Generator,
    ) -> None:  # fmt: skip
        """load_photographs: called with the views to score.

        Views are divided among the slots of a batch as evenly as in training.
        """
        self.model, self.rasterizer, self.loss, self.state, self.rng = model, rasterizer, loss, state, rng
        self._load_photographs, self._batch = load_photographs, config.batch_size
        self._fixed_sums = has_fixed_scores(config, rasterizer.backend.name == "cuda")
        self._graphs: dict[int, Replay] = {}  # by number of views
        self._pipeline = ViewPipeline(rasterizer.backend, state, self._prepare, self._select)
        self._sums: DeviceArray = None
        self._views: DeviceArray = None  # to score, int32, and number of views done, int32 [1]
        self._cursor: DeviceArray = None

    @staticmethod
    def memory_cost(fixed_sums: bool, num_ranks: int = 1) -> MemoryCost:
        """Device memory of the scores, on rank 0 also of those of another rank."""
        return MemoryCost(per_splat=(16 if fixed_sums else 8) * min(num_ranks, 2))

    @property
    def fixed_sums(self) -> bool:
        """Whether scores are added in fixed point: in any order with the same bits."""
        return self._fixed_sums or self.rasterizer.settings.deterministic

    def release(self) -> None:
        """Free the buffer of scores; the rasterizer frees its own."""
        self._sums = None
        self._graphs.clear()

    def scores(self, num_views: int) -> tuple[DeviceArray, DeviceArray]:
        """Mean over random views of every splat's blending weight and share of the error, float32 [num], px."""
        views = self._draw(num_views)
        return self._means(self.sums(views), len(views))

    def sums(self, views: np.ndarray) -> DeviceArray:
        """Sums of the scores over `views` int32, as blend_scores leaves them; valid until the next call."""
        self._load(views)
        self._score(views)
        while self._grow_if_overflowed():
            self._score(views)
        return self._sums

    def _draw(self, num_views: int) -> np.ndarray:
        """Random views to score, int32."""
        num_cameras = len(self.rasterizer.cameras.views)
        return in_slots(self.rng.permutation(num_cameras).astype(np.int32), self._batch)[:num_views]

    def _means(self, sums: DeviceArray, num_views: int) -> tuple[DeviceArray, DeviceArray]:
        means = mean_scores(self.rasterizer.backend, sums, self.model.num, num_views)
        return means[0], means[1]

    def _load(self, views: np.ndarray) -> None:
        """Load the photographs of `views`."""
        self._load_photographs(views)

    def _score(self, views: np.ndarray) -> None:
        """Score `views`, except those whose pairs exceed the buffers."""
        if not all(graph.current for graph in self._graphs.values()):
            self._graphs.clear()
        self._reset(views, keep=bool(self._graphs))
        for first in range(0, len(views), self._views_at_once):
            count = min(self._views_at_once, len(views) - first)
            if count not in self._graphs:
                self._graphs[count] = self._make_graph(count)
            self._graphs[count].run(1)

    def _make_graph(self, count: int) -> Replay:
        """Replays the scoring of the next `count` views."""
        return CapturedGraph(self.rasterizer, partial(self._launch, count))

    @property
    def _views_at_once(self) -> int:
        """Number of views in a graph; more than one if each is prepared while the one before is scored."""
        has_room = self.rasterizer.settings.batch > 1 and self._capacity <= MAX_AHEAD
        return MAX_AT_ONCE if has_room and not self.rasterizer.coloring else 1

    def _grow_if_overflowed(self) -> bool:
        """See Rasterizer.grow_if_overflowed."""
        return self.rasterizer.grow_if_overflowed(self.state)

    def _reset(self, views: np.ndarray, keep: bool) -> None:
        """Set the sums to 0 and the cursor before the first view. keep: the arrays, which captured graphs hold."""
        backend = self.rasterizer.backend
        if keep:
            self._sums[...] = 0
            self._views[...], self._cursor[...] = backend.upload(views), 0
        else:
            words = 4 if self.fixed_sums else 2
            self._sums = backend.xp.zeros((self._capacity, words), "float32")
            self._views, self._cursor = backend.upload(views), backend.upload(np.zeros(1, np.int32))

    @property
    def _capacity(self) -> int:
        return len(self.rasterizer.projection.depths)

    def _launch(self, count: int) -> None:
        self._pipeline.begin(0)
        for view in range(count):
            with self._pipeline.view(view, 0, count - 1):
                self.rasterizer.blend(self.model.splats, self.state)
                self._add_scores()

    def _prepare(self, view: int, state: IterState) -> None:
        """Queue the choice of the next view, its projected splats and its tile lists."""
        raster = self.rasterizer
        self._select(view)
        raster.backend.kernel("optim/begin_step", "next_view")((1,), (1,), state.array, self._views, self._cursor)
        raster.project_and_sort(self.model.splats, state)

    def _select(self, view: int) -> None:
        self.rasterizer.select(view % num_ahead(self.rasterizer.settings.batch))

    def _add_scores(self) -> None:
        """Queue the scores of the rendered view."""
        raster = self.rasterizer
        errors = raster.picture.d_image  # unused between training steps
        self.loss.forward(self.state, raster.picture.image, errors)
        raster.score(self.state, errors, self._sums, self.fixed_sums)


def has_fixed_scores(config: TrainConfig, is_cuda: bool) -> bool:
    """Whether --deterministic needs scores in fixed point: a GPU and several ranks add them in any order."""
    return config.deterministic and (is_cuda or config.batch_size > 1)
