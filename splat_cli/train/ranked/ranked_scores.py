"""Scores of splats on several ranks: each rank scores a part of the views, and rank 0 adds the sums of all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from splat_cli.data.training_images import TrainingImages
from splat_cli.density.ratings import add_scores
from splat_cli.device import DeviceArray
from splat_cli.ranks.agreement import all_or_none, fatal_out_of_memory
from splat_cli.ranks.protocol import Ranks
from splat_cli.render.iter_state import IterState
from splat_cli.train.ranked.ranked_views import RankedViews, Stages
from splat_cli.train.step import BatchStep
from splat_cli.train.view_scores import ViewScorer


class OwnViews:
    """See ViewsToScore: rank j % ranks renders the j-th view.

    overlap: called on all ranks after the rendering of the first views is queued, and again after an overflow. It
    queues transfers that overlap with the rendering.
    """

    def __init__(self, views: RankedViews, images: TrainingImages, overlap: Callable[[], object]) -> None:
        self._views, self._ranks, self._images, self._overlap = views, views.ranks, images, overlap

    @property
    def at_once(self) -> int:
        """Number of views that are exchanged together."""
        return self._views.batch

    def load(self, views: np.ndarray, reset: Callable[[], None]) -> None:
        """See ViewsToScore.load. SharedMemoryError if a rank runs out of memory."""

        def load_and_reset() -> None:
            self._images.load(views[self._ranks.rank :: self._ranks.size])
            reset()

        all_or_none(self._ranks, self._views.rasterizer.backend, load_and_reset)

    def graph(self, count: int, views: DeviceArray, cursor: DeviceArray, score: Callable[[], None]) -> Stages:
        """See ViewsToScore.graph. All ranks know afterwards whether one of the views overflowed."""
        ranked = self._views
        stages, num_own = Stages(ranked.rasterizer), ranked.num_own(count)

        def render_views() -> None:
            for view in range(num_own):
                with ranked.rendered(view, num_own):
                    score()
                    ranked.exchange.send_result(view, ranked.state)

        stages.queue_projections(ranked, count, lambda: ranked.begin(count, "next_views", views, cursor))
        stages.capture("render", render_views)
        stages.stages["move shares"] = self._overlap
        stages.stages["send results"] = lambda: ranked.exchange.begin_results()
        stages.stages["receive results"] = self._ranks.end_exchanges
        stages.capture("agree", lambda: ranked.exchange.agree(ranked.state, count))
        return stages

    def grow_if_overflowed(self, state: IterState) -> bool:
        """See RankedViews.grow_if_overflowed."""
        return self._views.grow_if_overflowed(state)

    def release(self) -> None:
        """Free the buffers between the ranks."""
        self._views.release()


class RankedScorer(ViewScorer):
    """Scores of rank 0 from the sums of all ranks.

    lead: called first with the views; on rank 0, it makes the others call `sums`, too.
    """

    def __init__(
        self,
        step: BatchStep,
        views: OwnViews,
        rng: np.random.Generator,
        ranks: Ranks,
        lead: Callable[[np.ndarray], object],
    ) -> None:
        super().__init__(step, views, rng)
        self._ranks, self._lead = ranks, lead
        self._ahead: tuple[int, np.ndarray, DeviceArray] | None = None  # number of splats, views, sums

    def score_ahead(self, num_views: int) -> None:
        """On rank 0: scores for the next call of `scores`, before splats are collected."""
        views = self.draw(num_views)
        self._ahead = self.step.model.num, views, self.sums(views)

    def scores(self, num_views: int) -> tuple[DeviceArray, DeviceArray]:
        """See ViewScorer.scores. If splats were removed since `score_ahead`, its views are scored again."""
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return super().scores(num_views)
        num, views, sums = ahead
        return self.means(sums if num == self.step.model.num else self.sums(views), len(views))

    def release(self) -> None:
        """See ViewScorer.release."""
        super().release()
        self._ahead = None

    def sums(self, views: np.ndarray) -> DeviceArray:
        """See ViewScorer.sums; all ranks call it with the same views."""
        num, backend = int(self.step.state.read()["num_splats"]), self.rasterizer.backend
        part = backend.xp.empty((num, self.sums_width), "float32") if self._ranks.rank == 0 else None
        self._lead(views)
        with fatal_out_of_memory(self._ranks):
            sums = super().sums(views)
            if part is None:
                self._ranks.send(sums[:num], 0)
                return sums
            for rank in range(1, self._ranks.size):
                self._ranks.receive(part, rank)
                add_scores(backend, part, sums)
        return sums
